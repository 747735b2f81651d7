// SPDX-License-Identifier: GPL-2.0-only
/*
 * See hands.hh. An order is a line:
 *
 *	mount SERVER OPTIONS		the rest speak of what is mounted from SERVER
 *	umount SERVER FLAGS
 *	read SERVER FILE OFFSET COUNT TIMES	O_DIRECT; TIMES reads at once, one behind the other in the file
 *	write SERVER FILE OFFSET COUNT SEED	O_DIRECT; the bytes of pattern()
 *	list SERVER			the names in the root
 *	symlink SERVER NAME TARGET
 *	readlink SERVER NAME
 *	acl SERVER FILE USERS		so many named users, each with permissions of its own
 *	stay SERVER			a process with its working directory there
 *	kill PID
 *
 * Answered by a line with the process' number at once, then one with errno and length, then the bytes.
 */
#include "hands.hh"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <thread>

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "message.hh"

namespace verbs {

namespace {

/* O_DIRECT wants memory to begin where a sector could. */
constexpr size_t alignment = 4096;

int connect_to(const std::string &address)
{
	sockaddr_in to = {};
	to.sin_family = AF_INET;
	to.sin_port = htons(hands_port);
	inet_pton(AF_INET, address.c_str(), &to.sin_addr);
	/* They may have been started a moment ago. */
	u64 deadline = now_ms() + answer_ms;
	for (;;) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (!connect(fd, reinterpret_cast<sockaddr *>(&to), sizeof(to)))
			return fd;
		int error = errno;
		close(fd);
		if (error != ECONNREFUSED || now_ms() > deadline)
			throw Failure{text("hands at %s: %s (does verbspeer hands run there?)",
					   address.c_str(), strerror(error))};
		usleep(100000);
	}
}

void write_all(int fd, const void *from, size_t length)
{
	auto *at = static_cast<const u8 *>(from);

	while (length) {
		ssize_t n = ::write(fd, at, length);
		if (n <= 0)
			_exit(1);
		at += n;
		length -= size_t(n);
	}
}

std::string directory(const std::string &server)
{
	return "/tmp/odd-" + server;
}

int do_mount(const std::string &server, const std::string &options)
{
	mkdir(directory(server).c_str(), 0755);
	std::string all = options + ",addr=" + server + ",mountaddr=" + server;

	return mount((server + ":/odd").c_str(), directory(server).c_str(), "nfs", 0, all.c_str()) ?
		       errno :
		       0;
}

int open_direct(const std::string &server, const std::string &file, int flags)
{
	return open((directory(server) + "/" + file).c_str(), flags | O_DIRECT);
}

int do_read(std::istringstream &words, const std::string &server, Octets &bytes)
{
	std::string file;
	size_t offset, count, times;

	words >> file >> offset >> count >> times;
	int fd = open_direct(server, file, O_RDONLY);
	if (fd < 0)
		return errno;
	std::vector<std::thread> threads;
	std::vector<u8 *> rooms(times);
	std::vector<ssize_t> lengths(times);
	std::vector<int> errors(times);
	for (size_t i = 0; i < times; i++) {
		rooms[i] = static_cast<u8 *>(
			aligned_alloc(alignment, (count + alignment - 1) / alignment * alignment));
		threads.emplace_back([&, i] {
			lengths[i] = pread(fd, rooms[i], count, off_t(offset + i * count));
			errors[i] = lengths[i] < 0 ? errno : 0;
		});
	}
	for (std::thread &thread : threads)
		thread.join();
	int error = 0;
	for (size_t i = 0; i < times; i++) {
		error = error ? error : errors[i];
		if (!errors[i])
			bytes.insert(bytes.end(), rooms[i], rooms[i] + lengths[i]);
	}
	/* Before the answer: what comes next may be an unmount. */
	close(fd);
	return error;
}

int do_write(std::istringstream &words, const std::string &server)
{
	std::string file;
	size_t offset, count;
	u32 seed;

	words >> file >> offset >> count >> seed;
	int fd = open_direct(server, file, O_WRONLY);
	if (fd < 0)
		return errno;
	auto *room = static_cast<u8 *>(
		aligned_alloc(alignment, (count + alignment - 1) / alignment * alignment));
	Octets bytes = pattern(count, seed);
	memcpy(room, bytes.data(), count);
	ssize_t n = pwrite(fd, room, count, off_t(offset));
	int error = n < 0 ? errno : n < ssize_t(count) ? EIO : 0;
	/* What a close would still have to say. */
	return close(fd) && !error ? errno : error;
}

int do_list(const std::string &server, Octets &bytes)
{
	DIR *dir = opendir(directory(server).c_str());
	if (!dir)
		return errno;
	errno = 0;
	while (dirent *entry = readdir(dir)) {
		std::string name = std::string(entry->d_name) + "\n";
		if (entry->d_name[0] != '.')
			bytes.insert(bytes.end(), name.begin(), name.end());
		errno = 0;
	}
	int error = errno;
	closedir(dir);
	return error;
}

int do_readlink(const std::string &path, Octets &bytes)
{
	bytes.resize(2 * 4096);
	ssize_t n = ::readlink(path.c_str(), reinterpret_cast<char *>(bytes.data()), bytes.size());
	bytes.resize(n < 0 ? 0 : size_t(n));
	return n < 0 ? errno : 0;
}

/* As the kernel has it: a version, then entries of tag, permissions (16 bits each) and user, in order. */
int do_acl(const std::string &path, u32 users)
{
	constexpr u32 nobody = ~0u;
	std::vector<u32> all = {2, 1 | 7 << 16, nobody};
	for (u32 i = 0; i < users; i++)
		all.insert(all.end(), {2 | i % 8 << 16, 1000 + i});
	all.insert(all.end(), {4 | 7 << 16, nobody, 0x10 | 7 << 16, nobody, 0x20 | 7 << 16, nobody});
	return setxattr(path.c_str(), "system.posix_acl_access", all.data(), 4 * all.size(), 0) ?
		       errno :
		       0;
}

int obey(const std::string &order, Octets &bytes)
{
	std::istringstream words(order);
	std::string what, server, more;

	words >> what;
	if (what == "kill") {
		pid_t pid;
		words >> pid;
		return ::kill(pid, SIGKILL) ? errno : 0;
	}
	words >> server;
	if (what == "mount") {
		words >> more;
		return do_mount(server, more);
	}
	if (what == "umount") {
		int flags;
		words >> flags;
		return umount2(directory(server).c_str(), flags) ? errno : 0;
	}
	if (what == "read")
		return do_read(words, server, bytes);
	if (what == "write")
		return do_write(words, server);
	if (what == "list")
		return do_list(server, bytes);
	if (what == "symlink") {
		std::string target;
		words >> more >> target;
		return ::symlink(target.c_str(), (directory(server) + "/" + more).c_str()) ? errno :
											     0;
	}
	if (what == "readlink") {
		words >> more;
		return do_readlink(directory(server) + "/" + more, bytes);
	}
	if (what == "acl") {
		u32 users;
		words >> more >> users;
		return do_acl(directory(server) + "/" + more, users);
	}
	if (what == "stay") {
		if (chdir(directory(server).c_str()))
			return errno;
		for (;;)
			pause();
	}
	return ENOSYS;
}

[[noreturn]] void obey_one(int fd)
{
	std::string order;
	char c;

	std::string hello = text("%d\n", int(getpid()));
	write_all(fd, hello.data(), hello.size());
	while (::read(fd, &c, 1) == 1 && c != '\n')
		order += c;
	Octets bytes;
	int error = obey(order, bytes);
	std::string result = text("%d %zu\n", error, bytes.size());
	write_all(fd, result.data(), result.size());
	write_all(fd, bytes.data(), bytes.size());
	_exit(0);
}

} // namespace

int hands()
{
	signal(SIGCHLD, SIG_IGN); /* nobody waits for them */
	signal(SIGPIPE, SIG_IGN);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	sockaddr_in at = {};
	at.sin_family = AF_INET;
	at.sin_port = htons(hands_port);
	if (listener < 0 || bind(listener, reinterpret_cast<sockaddr *>(&at), sizeof(at)) ||
	    listen(listener, 64)) {
		perror("verbspeer hands");
		return 1;
	}
	for (;;) {
		int fd = accept(listener, nullptr, nullptr);
		if (fd < 0)
			continue;
		if (!fork()) {
			close(listener);
			obey_one(fd);
		}
		close(fd);
	}
}

Job::Job(Peer &peer, const std::string &client, const std::string &order)
	: peer_(peer),
	  client_(client),
	  fd_(connect_to(client))
{
	std::string line = order + "\n";
	if (::write(fd_, line.data(), line.size()) != ssize_t(line.size()))
		throw Failure{"hands do not take orders"};
	fcntl(fd_, F_SETFL, O_NONBLOCK);
	peer_.watch(fd_, [this] { readable_(); });
}

Job::~Job()
{
	if (!ended_) {
		try {
			kill();
		} catch (Failure &) {
			/* Its machine is gone. */
		}
	}
	peer_.forget(fd_);
	close(fd_);
}

void Job::kill()
{
	/* The number comes before anything else, but it has to come. */
	peer_.run(answer_ms, [&] { return !in_.empty() || ended_; });
	int pid = atoi(std::string(in_.begin(), in_.end()).c_str());
	if (ended_ || pid <= 0)
		return;
	Job killer(peer_, client_, text("kill %d", pid));
	peer_.run(answer_ms, [&] { return killer.ended(); });
}

void Job::readable_()
{
	u8 room[65536];
	ssize_t n;

	while ((n = ::read(fd_, room, sizeof(room))) > 0)
		in_.insert(in_.end(), room, room + n);
	if (n < 0 && errno == EAGAIN)
		return;
	/* The end: whoever is killed says nothing. */
	ended_ = true;
	peer_.forget(fd_);
	std::istringstream in(std::string(in_.begin(), in_.end()));
	int pid;
	size_t length;
	if (!(in >> pid >> error_ >> length) || in_.size() < length) {
		error_ = EINTR;
		return;
	}
	bytes_.assign(in_.end() - ssize_t(length), in_.end());
}

} // namespace verbs
