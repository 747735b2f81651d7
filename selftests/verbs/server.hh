// SPDX-License-Identifier: GPL-2.0-only
/*
 * A server, small and right: NFSv3 over RDMA with one directory, beside it the MOUNT protocol over UDP.
 * A test looks at each request for a connection and at each call before the server does, and does
 * what it likes instead. While the server runs it judges what the client sends; what is not as the
 * specifications have it fails the test, whatever the test is about.
 */
#pragma once

#include <set>

#include "hands.hh"
#include "message.hh"

namespace verbs {

/** Procedures of NFSv3 (RFC 1813). */
enum Procedure : u32 {
	proc_null = 0,
	proc_getattr = 1,
	proc_setattr = 2,
	proc_lookup = 3,
	proc_access = 4,
	proc_readlink = 5,
	proc_read = 6,
	proc_write = 7,
	proc_symlink = 10,
	proc_readdir = 16,
	proc_readdirplus = 17,
	proc_fsstat = 18,
	proc_fsinfo = 19,
	proc_pathconf = 20,
	proc_commit = 21
};

/** Those of NFSACL (version 3) that there are here. */
constexpr u32 acl_proc_set = 2;

constexpr u32 nfs_program = 100003, acl_program = 100227;
/** What the file has; and how many more names the directory has. */
constexpr u32 file_size = 1 << 20, file_seed = 7, names = 300;
/** The file's name. */
constexpr const char *odd_file = "file";

/** A symbolic link. */
struct Link {
	std::string name, target;
};

/** A connection from a client, and what the client may do on it. */
struct Conversation {
	std::unique_ptr<Connection> connection;
	u32 number = 0; /* from 1, of this Server */
	/* Inline thresholds, both ways. */
	u32 calls_to = 1024, replies_to = 1024;
	bool remote_invalidation = false;
	u32 granted = 1;      /* calls it may have outstanding, by our last reply */
	u32 most_granted = 1; /* ever */
	u32 outstanding = 0;
	u32 most_outstanding = 0;
	u32 said = 0;	 /* messages that were no replies to its calls */
	u32 reports = 0; /* REPTERRs that it sent */
	/* The version that the client has to speak; 0: none, while its question is not answered. */
	static constexpr u32 either = ~0u;
	u32 vers = 1;
	bool marked = false;	      /* its private data are */
	bool its_question = false;    /* has come */
	u32 its_receives = two_least; /* what it says in version 2 that it takes at once */
	std::set<u32> xids;
	/* What came and is no call of a program: replies to backward calls. */
	std::deque<Answer> answers;

	/** That of a call, or of a reply, in its version. */
	[[nodiscard]] Header header(u32 xid, bool call) const;
};

/** What a client asks with the first message of a connection: a CONNPROP. */
struct Question {
	Conversation &on;
	u32 xid = 0;
};

/** A call of the client's. */
struct Call {
	Conversation &on;
	Answer message;
	Octets payload; /* wherever it was */
	u32 xid = 0, program = 0, version = 0, procedure = 0;
	u32 arguments = 0; /* their offset in the payload */

	/** The segments of the first Write chunk; of the Reply chunk; empty: none was offered. */
	[[nodiscard]] std::vector<Segment> write_chunk() const;
	[[nodiscard]] std::vector<Segment> reply_chunk() const;
	[[nodiscard]] std::vector<Segment> read_chunk() const;
	/** The same of the Position Zero Read chunk. */
	[[nodiscard]] std::vector<Segment> call_chunk() const;
	/** Some segment has this R_key. */
	[[nodiscard]] bool has(u32 rkey) const;
};

/** A reply, for a test to change. */
struct Reply {
	Header header;
	Chunks chunks; /* returned */
	Octets payload;
	std::optional<u32> invalidate;
	u32 transmissions = 0; /* of an XMTRESP; 0: it is none */

	/** The same in @count transmissions, each but the last with @each bytes of it. */
	[[nodiscard]] std::vector<Octets> parts(u32 count, u32 each) const;
	[[nodiscard]] Octets bytes() const
	{
		return message(header, chunks, payload);
	}
};

class Server {
public:
	/** @client  address of the machine whose hands mount and read */
	Server(Peer &peer, const std::string &address, const std::string &client);
	~Server();

	/* What a test sets. */

	/** Each request for a connection; true: dealt with. */
	std::function<bool(Connection &)> asked;
	/** Each call; true: dealt with. */
	std::function<bool(Call &)> odd;
	/** How connections are accepted, and how many credits each reply grants. */
	Setup setup;
	u32 grant = 32;
	/** Version 2 is spoken here: the mark is answered with the mark, and it says that it receives @takes bytes. */
	bool version2 = false;
	u32 takes = two_least;
	/** And it does all of rtrext-01, with that many transmissions of a call and of a reply; the client does, too. */
	u32 transmissions = 1;
	/** Each question for version 2; true: dealt with. Until speak() nothing may come on that connection any more. */
	std::function<bool(Question &)> questioned;
	/** Replies that are longer than this go into the Reply chunk. */
	u32 most_inline = ~0u;
	/** Links that are there, or that the client made. */
	std::vector<Link> links;

	/** Serve until @done, at most for @limit_ms; returns done(). */
	bool run(u64 limit_ms, const std::function<bool()> &done);
	/** Serve for so long, whatever comes. */
	void serve(u64 ms)
	{
		run(ms, [] { return false; });
	}
	/** Serve until @job has ended, or fail. */
	void finish(Job &job, u64 limit_ms = 90000);

	/* What the client is to do, by its hands. */

	std::unique_ptr<Job> start(const std::string &order);
	/** Starts it, and waits for its end. Returns its errno. */
	int order(const std::string &order, u64 limit_ms = 90000);
	std::unique_ptr<Job> start_mount(const std::string &options = "");
	/** The same, or fail. With it the file is there to be read. */
	void mount(const std::string &options = "");
	void umount();
	std::unique_ptr<Job> start_read(u32 offset, u32 count, u32 times = 1);
	/** What the file has there. */
	[[nodiscard]] Octets bytes(u32 offset, u32 count) const;
	/** @job ends, without error, with the file's bytes. */
	void right(Job &job, u32 offset, u32 count);
	/** Read, and compare. */
	void read(u32 offset, u32 count, u32 times = 1);
	/** Write something else and look at what came. */
	void write(u32 offset, u32 count, u32 seed);
	/** List the directory, and compare. */
	void list();
	/** That is what a listing of it says. */
	void expect_names(const Octets &listed) const;
	/** Make a link, and look at what came; read one, and compare. */
	void symlink(const Link &link);
	void readlink(const Link &link);
	/** Give the file so many named users, and look at what came; a mount with "acl" can do it. */
	void set_acl(u32 users);

	/* What a test does instead of the server. */

	/** What is right, RDMA Writes done. Throws when these fail. */
	Reply prepare(Call &call);
	/** The same without any RDMA operation: a READ's data go nowhere. */
	Reply prepare_dry(Call &call);
	/** Send it, as the reply that @on is owed: its grant and its call are accounted for. */
	void reply(Conversation &on, const Reply &reply);
	/** The same with any bytes, which grant @credits. */
	void reply(Conversation &on, const Octets &bytes, u32 credits,
		   std::optional<u32> invalidate = {});
	/** Do what is right. */
	void answer(Call &call)
	{
		reply(call.on, prepare(call));
	}
	/** Send anything; it counts for nothing. */
	void send(Conversation &on, const Octets &bytes);
	/** @on is granted so many by something else than a reply to it. */
	void granted(Conversation &on, u32 credits);
	/** From here on the client has to speak @vers; in version 2, with messages up to these lengths. */
	void speak(Conversation &on, u32 vers, u32 calls_to = two_least, u32 replies_to = ~0u);
	/** Say yes to a question, and grant so much. */
	void answer(const Question &question)
	{
		answer(question, grant);
	}
	void answer(const Question &question, u32 credits);
	/** The conversation of the newest connection that was accepted. */
	[[nodiscard]] Conversation &current();
	/** Connections accepted so far. */
	[[nodiscard]] u32 accepted() const
	{
		return accepted_;
	}
	[[nodiscard]] u32 requests() const
	{
		return requests_;
	}
	/** Questions for version 2 that came. */
	[[nodiscard]] u32 questions() const
	{
		return questions_;
	}
	/** What the client did wrong, if anything. */
	[[nodiscard]] const std::string &wrong() const
	{
		return wrong_;
	}
	[[nodiscard]] Peer &peer()
	{
		return peer_;
	}
	[[nodiscard]] const std::string &address() const
	{
		return address_;
	}

private:
	void handle_request_();
	bool handle_message_(Conversation &on);
	void handle_mount_call_();
	void accuse_(const Conversation &on, const std::string &what);
	void judge_chunks_(const Call &call);
	[[nodiscard]] bool judge_version_(Conversation &on, const Answer &answer);
	void judge_properties_(Conversation &on, const Octets &message);
	void handle_question_(Conversation &on, const Answer &answer);
	void attributes_(Words &to, u32 id) const;
	void post_op_attributes_(Words &to, u32 id) const;
	void changed_(Words &to, u32 id) const;
	[[nodiscard]] u32 find_(const std::string &name) const;
	Octets fetch_(Call &call, const std::vector<Segment> &segments);
	Octets item_(Call &call, Reader &in);
	void nfs_(Call &call, Words &results, Octets &data);
	void acl_(Call &call, Words &results);
	Reply prepare_(Call &call, bool dry);

	Peer &peer_;
	std::string address_, client_;
	Listener listener_;
	int mountd_ = -1;
	std::vector<std::unique_ptr<Conversation>> conversations_;
	u32 accepted_ = 0, requests_ = 0, questions_ = 0;
	Octets file_, file_acl_;
	std::string wrong_;
};

} // namespace verbs
