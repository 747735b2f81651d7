# SPDX-License-Identifier: GPL-2.0-only
#
# Shell functions of the guests: network, RDMA link, NFS server and client. Every script that the
# host sends begins by reading this file. What a test checks is in the test, not here.

# busybox prefers its own applets to programs of the same name on PATH.
for name in ip modprobe insmod rmmod lsmod modinfo depmod; do
	eval "$name() { /usr/sbin/$name \"\$@\"; }"
done

# Says what failed and ends the script.
die() {
	echo "$*" >&2
	exit 1
}

# net_up ADDRESS_SUFFIX: eth0 as 10.0.0.N and fd00::N, with an MTU that takes rxe's 4096.
net_up() {
	modprobe virtio_net || die "no virtio_net"
	ip link set lo up
	ip link set eth0 mtu 4500 || die "no eth0"
	echo 0 > /proc/sys/net/ipv6/conf/eth0/accept_dad
	ip link set eth0 up
	ip addr add 10.0.0.$1/24 dev eth0
	ip addr add fd00::$1/64 dev eth0 nodad
}

rxe_up() {
	modprobe rdma_rxe || die "no rdma_rxe"
	rdma link add rxe0 type rxe netdev eth0 || die "rdma link add failed"
}

# The daemons that NFSv3 needs on either side; once is enough.
rpc_daemons_up() {
	[ -e /run/rpcbind.lock ] && return
	mkdir -p /run/rpcbind /var/lib/nfs/sm /var/lib/nfs/sm.bak
	touch /var/lib/nfs/state
	ln -sf /proc/mounts /etc/mtab
	rpcbind -w || die "rpcbind failed"
	chown -R statd /var/lib/nfs/sm /var/lib/nfs/sm.bak /var/lib/nfs/state 2>/dev/null
	rpc.statd --no-notify || die "rpc.statd failed"
	grep -q rpc_pipefs /proc/mounts || mount -t rpc_pipefs pipes /var/lib/nfs/rpc_pipefs
}

# export_up SIZE: the tmpfs that is served.
export_up() {
	mkdir -p /export
	mount -t tmpfs -o "size=$1,mode=1777" export /export || die "no tmpfs for /export"
	echo '/export *(rw,fsid=0,no_root_squash,no_subtree_check,insecure,async)' > /etc/exports
}

# nfsd_start THREADS [grace]: listens on RDMA port 20049. Without "grace" the server takes new state
# at once; with it, clients may reclaim theirs first, and everybody else waits.
nfsd_start() {
	echo 'rdma 20049' > /proc/fs/nfsd/portlist || die "nfsd does not listen on rdma 20049"
	echo "$1" > /proc/fs/nfsd/threads || die "nfsd does not start"
	[ "$2" = grace ] || echo Y > /proc/fs/nfsd/v4_end_grace
}

nfsd_stop() {
	echo 0 > /proc/fs/nfsd/threads
}

# server_up TRANSPORT_MODULE [PARAMETER=VALUE...]: everything for NFS over RDMA but the link and the export.
server_up() {
	modprobe "$@" || die "modprobe $* failed"
	modprobe nfsd || die "modprobe nfsd failed"
	modprobe lockd
	echo 3 > /proc/sys/fs/nfs/nlm_timeout
	echo 3 > /proc/sys/fs/nfs/nlm_grace_period
	mount -t nfsd nfsd /proc/fs/nfsd || die "no nfsd file system"
	touch /var/lib/nfs/etab /var/lib/nfs/rmtab
	rpc_daemons_up
	exportfs -ra || die "exportfs failed"
	rpc.mountd -N 2 || die "rpc.mountd failed"
	echo 10 > /proc/fs/nfsd/nfsv4leasetime
	echo 10 > /proc/fs/nfsd/nfsv4gracetime
	# By itself nfsd offers less than 1 MiB per READ and WRITE on a machine with little memory.
	echo 1048576 > /proc/fs/nfsd/max_block_size
	for version in +3 +4 +4.0 +4.1 +4.2; do
		echo "$version" > /proc/fs/nfsd/versions
	done
	nfsd_start 8
}

# client_up TRANSPORT_MODULE [PARAMETER=VALUE...]: everything for a mount but the link.
client_up() {
	modprobe sunrpc
	modprobe "$@" || die "modprobe $* failed"
	modprobe -a nfs nfsv3 nfsv4 || die "no nfs"
	rpc_daemons_up
}

# nfs_mount VERSION [OPTIONS [WHERE]]: mounts the server's export.
nfs_mount() {
	case $1 in
	3) source=10.0.0.1:/export ;;
	*) source=10.0.0.1:/ ;;
	esac
	mkdir -p "${3:-/mnt}"
	/sbin/mount.nfs $source "${3:-/mnt}" -o "vers=$1,proto=rdma,port=20049,sec=sys${2:+,$2}"
}

# Forgets what the client has cached of files.
drop_caches() {
	sync
	echo 3 > /proc/sys/vm/drop_caches
}
