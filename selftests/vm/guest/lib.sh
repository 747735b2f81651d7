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

# net_up N [NET [NETDEV]]: NETDEV (eth0) as 10.0.NET.N and fd00:0:0:NET::N (NET: 0), with an MTU that
# takes rxe's 4096.
net_up() {
	netdev=${3:-eth0}
	modprobe virtio_net || die "no virtio_net"
	ip link set lo up
	ip link set $netdev mtu 4500 || die "no $netdev"
	echo 0 > /proc/sys/net/ipv6/conf/$netdev/accept_dad
	ip link set $netdev up
	ip addr add 10.0.${2:-0}.$1/24 dev $netdev
	ip addr add fd00:0:0:${2:-0}::$1/64 dev $netdev nodad
}

# rdma_up KIND [NETDEV]: an RDMA device in software, rxe or siw, with the number of its NETDEV (eth0).
rdma_up() {
	netdev=${2:-eth0}
	case $1 in
	rxe) modprobe rdma_rxe || die "no rdma_rxe" ;;
	siw) modprobe siw || die "no siw" ;;
	*) die "rdma_up $1: must be rxe or siw" ;;
	esac
	rdma link add $1${netdev#eth} type $1 netdev $netdev || die "rdma link add failed"
}

rxe_up() {
	rdma_up rxe
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

# NFSv3's locks live in lockd, and only a reboot has statd tell the peers that they are gone. These two
# make a restart of nfsd look like one: statd goes without being told to forget its peers, and
# comes back after them.
statd_killed() {
	killall -9 rpc.statd || die "rpc.statd was not running"
}

statd_rebooted() {
	rpc.statd --no-notify || die "rpc.statd failed"
	statd_notify
}

# Tells every peer that statd watched before the machine went down that it is back.
statd_notify() {
	ls /var/lib/nfs/sm
	[ "$(ls /var/lib/nfs/sm)" ] || die "statd watched nobody: there is no one to tell"
	sm-notify -d -f -m 1 || die "sm-notify failed"
	[ ! "$(ls /var/lib/nfs/sm.bak)" ] || die "sm-notify did not reach $(ls /var/lib/nfs/sm.bak)"
}

# statd_save prints what statd has on disk, which a real machine would keep over a power cycle;
# statd_restore TEXT puts it there, before client_up.
statd_save() {
	tar -c -C /var/lib/nfs sm state | base64 | tr -d '\n'
}

statd_restore() {
	mkdir -p /var/lib/nfs
	echo "$1" | base64 -d | tar -x -C /var/lib/nfs || die "statd's files cannot be unpacked"
}

# export_up SIZE [FLAVOURS]: the tmpfs that is served, with sec=FLAVOURS (sys).
export_up() {
	mkdir -p /export
	mount -t tmpfs -o "size=$1,mode=1777" export /export || die "no tmpfs for /export"
	echo "/export *(rw,fsid=0,sec=${2:-sys},no_root_squash,no_subtree_check,insecure,async)" \
		> /etc/exports
}

# nfsd_start THREADS [grace]: listens on RDMA port 20049. Without "grace" the server takes new state
# at once; with it, clients may reclaim theirs first, and everybody else waits.
nfsd_start() {
	echo 'rdma 20049' > /proc/fs/nfsd/portlist || die "nfsd does not listen on rdma 20049"
	echo "$1" > /proc/fs/nfsd/threads || die "nfsd does not start"
	[ "$2" = grace ] || end_grace
}

# Newer kernels have no grace period where no client has anything to reclaim, and refuse to end it.
end_grace() {
	echo Y 2> /dev/null > /proc/fs/nfsd/v4_end_grace || [ "$(cat /proc/fs/nfsd/v4_end_grace)" = Y ] ||
		die "nfsd does not end its grace period"
}

nfsd_stop() {
	echo 0 > /proc/fs/nfsd/threads
}

# Where nfsd does not keep by itself who its clients were, in a folder, a daemon does, and nfsd lets no client reclaim
# anything before it has that.
client_tracking_up() {
	[ -e /proc/fs/nfsd/nfsv4recoverydir ] && return
	mkdir -p /var/lib/nfs/nfsdcld
	nfsdcld || die "nfsdcld failed"
}

# server_up TRANSPORT_MODULE [LEASE [GRACE [grace]]]: everything for NFS over RDMA but the link and the export;
# lease and grace period last so many seconds (10); with "grace" as nfsd_start.
server_up() {
	modprobe "$1" || die "modprobe $1 failed"
	modprobe nfsd || die "modprobe nfsd failed"
	modprobe lockd
	echo 3 > /proc/sys/fs/nfs/nlm_timeout
	echo 3 > /proc/sys/fs/nfs/nlm_grace_period
	mount -t nfsd nfsd /proc/fs/nfsd || die "no nfsd file system"
	touch /var/lib/nfs/etab /var/lib/nfs/rmtab
	rpc_daemons_up
	exportfs -ra || die "exportfs failed"
	rpc.mountd -N 2 || die "rpc.mountd failed"
	client_tracking_up
	echo ${2:-10} > /proc/fs/nfsd/nfsv4leasetime
	echo ${3:-10} > /proc/fs/nfsd/nfsv4gracetime
	# By itself nfsd offers less than 1 MiB per READ and WRITE on a machine with little memory.
	echo 1048576 > /proc/fs/nfsd/max_block_size
	for version in +3 +4 +4.0 +4.1 +4.2; do
		echo "$version" > /proc/fs/nfsd/versions
	done
	nfsd_start 8 $4
}

# client_up TRANSPORT_MODULE [PARAMETER=VALUE...]: everything for a mount but the link.
client_up() {
	modprobe sunrpc
	modprobe "$@" || die "modprobe $* failed"
	modprobe -a nfs nfsv3 nfsv4 || die "no nfs"
	rpc_daemons_up
}

# nfs_mount VERSION [OPTIONS [WHERE [FLAVOUR [ADDRESS]]]]: mounts the server's export.
nfs_mount() {
	host=${5:-10.0.0.1}
	# Kerberos knows the server by its name.
	[ "${4:-sys}" = sys ] || host=server
	case $1 in
	3) source=$host:/export ;;
	*) source=$host:/ ;;
	esac
	mkdir -p "${3:-/mnt}"
	/sbin/mount.nfs $source "${3:-/mnt}" -o "vers=$1,proto=rdma,port=20049,sec=${4:-sys}${2:+,$2}"
}

# krb5_server_up: the realm's KDC, and what nfsd needs of Kerberos. gssd makes its contexts over TCP,
# so nfsd listens there too.
krb5_server_up() {
	mkdir -p /var/tmp
	modprobe rpcsec_gss_krb5 || die "no rpcsec_gss_krb5"
	krb5kdc || die "krb5kdc failed: $(cat /run/krb5kdc.log)"
	rpc.idmapd -S || die "rpc.idmapd failed"
	rpc.svcgssd || die "rpc.svcgssd failed"
	grep -q '^tcp 2049' /proc/fs/nfsd/portlist || echo 'tcp 2049' > /proc/fs/nfsd/portlist ||
		die "nfsd does not listen on tcp 2049"
}

# krb5_client_up: credentials for root (by keytab) and for user (by a ticket).
krb5_client_up() {
	mkdir -p /var/tmp
	modprobe rpcsec_gss_krb5 || die "no rpcsec_gss_krb5"
	rpc.gssd || die "rpc.gssd failed"
	kinit -k -t /etc/user.keytab -c /tmp/krb5cc_1000 user || die "user got no ticket"
	chown 1000 /tmp/krb5cc_1000
}

# tool PROGRAM [ARGUMENT...]: a program of the host, with the host's libraries.
tool() {
	if [ ! -d /host/bin ]; then
		mkdir -p /host
		modprobe -a 9pnet_virtio 9p &&
			mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 host /host ||
			die "the host's /usr is not there"
	fi
	[ -x /host/bin/$1 ] || die "the host has no $1: run scripts/setup interop bench"
	libraries=/host/lib/x86_64-linux-gnu
	LD_LIBRARY_PATH=$libraries:$libraries/ceph /host/bin/"$@"
}

# work_to_grow DIR TURN: calls enough, on the mount DIR, for the server's Receives of version 2 to grow, in a turn or a few.
work_to_grow() {
	[ -d /tmp/grow ] || fsops gen /tmp/grow 1 || die "no files to copy"
	fsops copy /tmp/grow/d08 $1/grow$2 8 && rm -r $1/grow$2 || die "no work in $1"
}

# Forgets what the client has cached of files.
drop_caches() {
	sync
	echo 3 > /proc/sys/vm/drop_caches
}
