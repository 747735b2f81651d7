// SPDX-License-Identifier: GPL-2.0-only
/*
 * Nothing is odd about this server: the client's chunks are what is looked at. NFSv3's paths of links,
 * which RFC 8267 lets be reduced, and calls that are too long and have nothing to reduce.
 */
#include "odd.hh"

#include <cerrno>
#include <cstring>

namespace verbs {

namespace {

/* Characters that a path may have, and hands can be told. */
std::string path(size_t length)
{
	std::string path = "to-";
	for (size_t i = path.size(); i < length; i++)
		path += char(i % 97 == 96 ? '/' : 'a' + i % 26);
	path.resize(length);
	return path;
}

/*
 * SYMLINK: a path that fits stays inline, any other goes in a Read chunk, at its place, without pad. The
 * server judges the chunk (item_() in server.cc).
 */
void symlink(Server &s)
{
	for (u32 size : {4096u, 1024u}) {
		s.setup.message_size = size;
		s.mount("hard,timeo=600");
		u32 reduced = 0, inside = 0;
		s.odd = [&](Call &call) {
			if (call.procedure != proc_symlink)
				return false;
			(call.read_chunk().empty() ? inside : reduced)++;
			check(call.call_chunk().empty(),
			      "a SYMLINK's path in a Position Zero chunk");
			return false;
		};
		u32 number = u32(s.links.size());
		/* Headers and attributes take less than 400 bytes. */
		for (size_t length : {size_t(1), size_t(size - 400)})
			s.symlink({text("link-%u", ++number), path(length)});
		check(inside == 2 && !reduced,
		      text("%u bytes inline: paths that fit went in a chunk", size));
		for (size_t length : {size_t(size - 2), size_t(size - 1), size_t(4095)})
			s.symlink({text("link-%u", ++number), path(length)});
		check(inside == 2 && reduced == 3,
		      text("%u bytes inline: paths that do not fit went without a chunk", size));
		s.odd = nullptr;
		s.umount();
	}
	connections(s, 2);
}

/* READLINK: what comes, inline or in the Reply chunk, is the path to its last byte. */
void readlink(Server &s)
{
	for (size_t length : {1, 2, 800, 1023, 3000, 4000, 4095})
		s.links.push_back({text("link-%zu", length), path(length)});
	for (u32 size : {4096u, 1024u}) {
		s.setup.message_size = size;
		s.mount("hard,timeo=600");
		u32 offered = 0;
		s.odd = [&](Call &call) {
			if (call.procedure == proc_readlink)
				offered += call.write_chunk().empty() && !call.reply_chunk().empty();
			return false;
		};
		for (const Link &link : s.links)
			s.readlink(link);
		check(offered == s.links.size(),
		      text("%u of %zu READLINKs came with a Reply chunk and without a Write chunk",
			   offered, s.links.size()));
		s.odd = nullptr;
		s.umount();
	}
	connections(s, 2);
}

/* The server may use a Write chunk for the path if one is offered: none is, and it must not be returned. */
void readlink_chunk(Server &s)
{
	Link link = {"link", path(1000)};
	s.links.push_back(link);
	s.mount("hard,timeo=600");
	once(s, proc_readlink, [&](Call &call) {
		Reply reply = s.prepare(call);
		reply.chunks.write({{Rkey(1), 1000, 0}});
		s.reply(call.on, reply);
	});
	auto job = s.start("readlink " + s.address() + " link");
	s.finish(*job);
	check(job->error() == EIO,
	      text("a READLINK ended with \"%s\", expected EIO", strerror(job->error())));
	s.readlink(link);
	connections(s, 1);
}

/*
 * RFC 8267 4: WRITE's and SYMLINK's arguments are reduced, READ's results, and nothing else, also where it is as
 * long: a listing comes in the Reply chunk. (The server judges each call of any conversation by this.)
 */
void eligible(Server &s)
{
	for (u32 size : {4096u, 1024u}) {
		s.setup.message_size = size;
		std::set<u32> reading, writing, long_replies;
		s.odd = [&](Call &call) {
			if (call.program != nfs_program)
				return false;
			if (!call.read_chunk().empty())
				reading.insert(call.procedure);
			if (call.message.header().writes.count())
				writing.insert(call.procedure);
			if (!call.reply_chunk().empty())
				long_replies.insert(call.procedure);
			return false;
		};
		for (const char *listing : {"nordirplus", "rdirplus"}) {
			s.mount(text("hard,timeo=600,%s", listing));
			Link link = {text("link-%zu", s.links.size()), path(size - 1)};
			s.symlink(link);
			s.readlink(link);
			s.write(0, 65536, size);
			s.read(0, 65536);
			s.list();
			s.umount();
		}
		s.odd = nullptr;
		check(reading == std::set<u32>{proc_write, proc_symlink},
		      text("%zu procedures had a Read chunk for an item, expected WRITE and "
			   "SYMLINK",
			   reading.size()));
		check(writing == std::set<u32>{proc_read},
		      text("%zu procedures had a Write chunk, expected READ", writing.size()));
		check(long_replies.count(proc_readdir) && long_replies.count(proc_readdirplus),
		      "a listing without Reply chunk");
	}
	connections(s, 4);
}

/* ACLs have nothing to reduce: one that does not fit makes a call that is all in a Position Zero chunk. */
void long_call(Server &s)
{
	for (u32 size : {4096u, 1024u}) {
		s.setup.message_size = size;
		s.mount("hard,timeo=600,acl");
		for (u32 users : {1u, size / 20, size / 8, 1000u}) {
			bool whole = false;
			once(
				s, acl_proc_set,
				[&](Call &call) {
					whole = !call.call_chunk().empty();
					check(call.read_chunk().empty(), "an ACL is reduced");
					check(!whole || (call.message.header().kind == Kind::nomsg &&
							 call.message.payload().empty()),
					      "inline bytes beside a Position Zero Read chunk");
					s.answer(call);
				},
				acl_program);
			s.set_acl(users);
			bool long_one = 12 * users > size;
			check(whole == long_one,
			      text("an ACL of %u users with %u bytes inline went %s", users, size,
				   whole ? "in a chunk" : "inline"));
		}
		s.read(0, 65536);
		s.umount();
	}
	connections(s, 2);
}

/* The connection goes before such a call is read: it comes again, with its xid, in other memory. */
void long_call_leave(Server &s)
{
	s.mount("hard,timeo=600,acl");
	u32 xid = 0;
	once(
		s, acl_proc_set,
		[&](Call &call) {
			xid = call.xid;
			call.on.connection->disconnect();
		},
		acl_program);
	auto job = s.start("acl " + s.address() + " " + odd_file + " 900");
	check(s.run(30000, [&] { return xid != 0; }), "no SETACL came");
	once(
		s, acl_proc_set,
		[&](Call &call) {
			check(call.xid == xid, "the call was sent again with another xid");
			check(!call.call_chunk().empty(), "a long call without its chunk");
			s.answer(call);
		},
		acl_program);
	s.finish(*job);
	check(!job->error(), text("SETACL: %s", strerror(job->error())));
	s.set_acl(800);
	connections(s, 2);
}

} // namespace

const std::vector<OddTest> odd_item_tests = {
	{"odd-symlink", "SYMLINK: paths inline and in Read chunks", symlink},
	{"odd-readlink", "READLINK: paths inline and in the Reply chunk", readlink},
	{"odd-readlink-chunk", "a Write chunk that READLINK did not offer: EIO", readlink_chunk},
	{"odd-eligible", "NFSv3: chunks for READ, WRITE and SYMLINK, and for nothing else", eligible},
	{"odd-long-call", "ACLs: inline, or the whole call in a Position Zero Read chunk", long_call},
	{"odd-long-call-leave", "left with a long call: sent again with its xid", long_call_leave},
};

} // namespace verbs
