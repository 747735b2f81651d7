// SPDX-License-Identifier: GPL-2.0-only
/*
 * nullrpc: NULLs, which no system call makes one by one.
 *
 * /sys/kernel/debug/nullrpc: who opens it writes the path of an NFS mount, once; each read of a byte is a NULL over the
 * transport of that mount, which has been answered when the read is over. A read that fails says why the call did.
 */
#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/module.h>
#include <linux/namei.h>
#include <linux/nfs_fs.h>
#include <linux/nfs_fs_sb.h>
#include <linux/slab.h>
#include <linux/sunrpc/clnt.h>
#include <linux/sunrpc/sched.h>

static struct dentry *entry;

static ssize_t nullrpc_write(struct file *file, const char __user *user, size_t size, loff_t *at)
{
	struct rpc_clnt *client;
	struct path path;
	char *name;
	int err;

	if (file->private_data)
		return -EBUSY;
	name = memdup_user_nul(user, min_t(size_t, size, PATH_MAX));
	if (IS_ERR(name))
		return PTR_ERR(name);
	err = kern_path(name, LOOKUP_FOLLOW, &path);
	kfree(name);
	if (err)
		return err;
	client = ERR_PTR(-EINVAL);
	if (path.dentry->d_sb->s_magic == NFS_SUPER_MAGIC)
		client = rpc_clone_client(NFS_SB(path.dentry->d_sb)->client);
	path_put(&path);
	if (IS_ERR(client))
		return PTR_ERR(client);
	/* Two threads do not share an open file here. */
	file->private_data = client;
	return size;
}

static ssize_t nullrpc_read(struct file *file, char __user *user, size_t size, loff_t *at)
{
	struct rpc_task *task;
	int err;

	if (!file->private_data)
		return -ENOTCONN;
	if (size != 1 || put_user(0, user))
		return -EINVAL;
	task = rpc_call_null(file->private_data, NULL, 0);
	if (IS_ERR(task))
		return PTR_ERR(task);
	err = task->tk_status;
	rpc_put_task(task);
	return err < 0 ? err : 1;
}

static int nullrpc_release(struct inode *inode, struct file *file)
{
	if (file->private_data)
		rpc_shutdown_client(file->private_data);
	return 0;
}

static const struct file_operations nullrpc_fops = {
	.owner = THIS_MODULE,
	.write = nullrpc_write,
	.read = nullrpc_read,
	.release = nullrpc_release,
};

static int __init nullrpc_init(void)
{
	entry = debugfs_create_file_unsafe("nullrpc", 0600, NULL, NULL, &nullrpc_fops);
	return PTR_ERR_OR_ZERO(entry);
}

static void __exit nullrpc_exit(void)
{
	debugfs_remove(entry);
}

module_init(nullrpc_init);
module_exit(nullrpc_exit);

MODULE_DESCRIPTION("NULL calls on demand, for tests");
MODULE_LICENSE("GPL");
