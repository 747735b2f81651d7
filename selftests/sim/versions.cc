// SPDX-License-Identifier: GPL-2.0-only
/* Rules of which version is spoken. See versions.hh. */
#include "selftests/sim/versions.hh"

#include <algorithm>

#include "compat/port/port.h"
#include "selftests/sim/cm.hh"

namespace sim {

namespace protocol = rpcordma::protocol;
namespace xdr = rpcordma::xdr;

/* What connecting may take besides what is measured: a clock of milliseconds, fibers that are slow. */
static constexpr u64 kMargin = 10 * kSecond;
/* For how long the client waits for an answer, as it may connect for longer. */
static constexpr u64 kPatience = 5 * kSecond;

xdr::Message decode_message(const u8 *bytes, u32 length)
{
	xdr::Message message;
	const auto fixed = xdr::peek({bytes, length});

	if (!fixed)
		return {};
	const u32 version = fixed.value().vers;
	const rpcordma::Error error = protocol::Spoken::with(
		protocol::Spoken::speak(version) ? version : rpcordma::v1::version, [&](auto codec) {
			return codec.decode({bytes, length}, message);
		});
	if (error == rpcordma::Error::none)
		return message;
	message = {};
	/* Of whatever version: an echo. What is behind it is ignored, as in the versions that we speak. */
	if (fixed.value().proc == xdr::proc_error && length >= 28 &&
	    xdr::load_be32(bytes + 16) == xdr::error_code_vers) {
		message.xid = fixed.value().xid;
		message.version = version;
		message.kind = xdr::Kind::error;
		message.direction = xdr::Direction::reply;
		message.error = {xdr::ErrorCode::version, xdr::load_be32(bytes + 20),
				 xdr::load_be32(bytes + 24)};
	}
	return message;
}

static bool has_mark(const std::vector<u8> &private_data)
{
	const auto said = rpcordma::private_data::parse({private_data.data(), private_data.size()});

	return said.ok() && said.value().mark;
}

/* --- a connection --- */

void VersionTalk::begin(const std::vector<u8> &client, const std::vector<u8> &server, bool strange)
{
	client_mark = has_mark(client);
	server_mark = has_mark(server);
	REQUIRE(!server_mark || client_mark || strange,
		"server: the mark, in answer to a client without");
}

/* Linux's own server garbles data that come so; whoever has the mark does not. */
static void count_kinds(const xdr::Message &message, bool server, bool may)
{
	bool whole = false, item = false;

	for (const xdr::ReadSegment segment : message.reads)
		(segment.position.get() ? item : whole) = true;
	const bool reads = whole && item,
		   replies = !message.writes.empty() && message.reply.present();
	REQUIRE(server || may || (!reads && !replies),
		"client: two kinds of chunk for one message, to a server without the mark");
	if (server) {
		VersionTalk::both_used += replies && message.reply.length() &&
					  (*message.writes.begin()).length();
		return;
	}
	VersionTalk::two_reads += reads;
	VersionTalk::two_replies += replies;
}

void VersionTalk::posted(bool server, const xdr::Message &message, bool strange)
{
	/* What an error says of its version is an echo. */
	const bool echo = message.kind == xdr::Kind::error;

	if (!strange)
		count_kinds(message, server, client_mark && server_mark);
	if (!server) {
		if (message.kind == xdr::Kind::connprop) {
			REQUIRE(!asked, "client: asks for version 2 twice");
			REQUIRE(client_mark, "client: asks for version 2, and has not the mark");
			asked = true;
			asked_at = now();
			question = message.xid.get();
			return;
		}
		/* Nobody replies to a report. */
		if (message.direction == xdr::Direction::call &&
		    message.option != xdr::Option::repterr)
			calls_.insert(message.xid.get());
		REQUIRE(!asked || answered, "client: sends before its question is answered");
		REQUIRE(echo || message.version == version(),
			"client: version %u on a connection of version %u", message.version,
			version());
		return;
	}
	if (echo)
		return;
	if (message.version == rpcordma::v2::version && !strange) {
		REQUIRE(asked, "server: version 2, for which nobody asked");
		REQUIRE(server_mark, "server: version 2, and it has not the mark");
	}
	REQUIRE(!server_version_ || server_version_ == message.version,
		"server: version %u behind version %u", message.version, server_version_);
	server_version_ = message.version;
}

void VersionTalk::heard(const xdr::Message &message, bool strange)
{
	if (!asked || answered) {
		replied = replied ||
			  (message.kind <= xdr::Kind::error &&
			   message.direction == xdr::Direction::reply &&
			   message.version == version() && calls_.count(message.xid.get()));
		if (!strange && message.kind != xdr::Kind::error)
			REQUIRE(message.version == version(),
				"client: hears version %u on a connection of version %u",
				message.version, version());
		return;
	}
	/* By the draft, and not by protocol::judge_answer(). */
	rpcordma::properties::Properties properties;
	u32 fixed;
	answered = true;
	if (message.direction == xdr::Direction::unknown)
		return;
	if (message.kind == xdr::Kind::connprop) {
		if (rpcordma::properties::decode_connprop(message.body(), properties, fixed) ==
		    rpcordma::Error::none)
			answer = rpcordma::v2::version;
	} else if (message.kind == xdr::Kind::error && message.xid.get() == question) {
		if (message.error.code == xdr::ErrorCode::procedure)
			answer = rpcordma::v2::version;
		else if (message.error.code == xdr::ErrorCode::version && message.error.low <= 1 &&
			 message.error.high >= 1)
			answer = rpcordma::v1::version;
	}
}

/* --- a client --- */

bool VersionMemory::calm;
u32 VersionTalk::grown;
unsigned long long VersionTalk::two_reads, VersionTalk::two_replies, VersionTalk::both_used;
unsigned long long VersionTalk::groups, VersionTalk::reply_groups, VersionTalk::items,
	VersionTalk::reply_items, VersionTalk::gathered;
unsigned long long VersionTalk::results_sent, VersionTalk::results_written;
unsigned long long VersionTalk::several_reads[2];
u32 VersionMemory::changes, VersionMemory::asked_again;
unsigned long long VersionMemory::went_down, VersionMemory::came_back;

void VersionMemory::reset()
{
	calm = false;
	changes = asked_again = 0;
	VersionTalk::grown = 0;
}

void VersionMemory::connecting()
{
	began_ = now();
	changes_ = changes;
	memory_failures_ = faults.memory_failures;
	mapping_failures_ = faults.mapping_failures;
	posting_failures_ = faults.posting_failures;
	parameter_ = rpcordma_tunables.version2;
	strangers_ = strangers_ || fabric->strangers;
	attempts_ = 0;
	/* Broken before its first reply: maybe, as it may have been closed. */
	if (talk_ && talk_->version() == rpcordma::v2::version && !talk_->replied)
		avoid_maybe_ = now() + kAvoidance + kMargin;
	talk_ = last_ = nullptr;
}

void VersionMemory::attempt()
{
	last_ = talk_;
	talk_ = nullptr;
	attempts_++;
	if (attempts_ == 1)
		return;
	REQUIRE(attempts_ == 2, "client: %u connections in one connect()", attempts_);
	/* A question may fail to be posted. */
	REQUIRE(last_ && (last_->asked ||
			  (last_->client_mark && faults.posting_failures != posting_failures_)),
		"client: a second connection, though it had not asked");
	REQUIRE(!last_->answer || last_->broken ||
			now() - last_->asked_at + kMillisecond >= kPatience,
		"client: a second connection, though the question was answered");
	REQUIRE(!calm, "client: a second connection, though nothing was lost");
	/* It began once the question was out. */
	avoid_surely_ = (last_->asked ? last_->asked_at : began_) + kAvoidance - kMillisecond;
}

void VersionMemory::requested(const std::vector<u8> &private_data)
{
	const bool mark = has_mark(private_data);
	const u32 least = rpcordma::properties::default_receive_size;
	const bool may = parameter_ && std::min(rpcordma_tunables.max_inline_read,
						rpcordma_tunables.max_inline_write) >= least;

	if (attempts_ > 1)
		REQUIRE(!mark, "client: the mark on a second connection");
	else
		/* What asks takes memory of its own. The parameter may have changed before the client looked at it. */
		REQUIRE(mark == may || changes != changes_ ||
				(may && faults.memory_failures != memory_failures_),
			"client: %s mark, with version2 %u", mark ? "the" : "no", parameter_);
}

void VersionMemory::agreed(const std::shared_ptr<VersionTalk> &talk)
{
	talk_ = talk;
}

void VersionMemory::asks()
{
	REQUIRE(attempts_ == 1, "client: asks on a second connection");
	REQUIRE(talk_->server_mark || parameter_ == 2 || changes != changes_,
		"client: asks a server without the mark");
	REQUIRE(now() >= avoid_surely_, "client: asks a server that did not go along %.3f s ago",
		double(now() + kAvoidance - avoid_surely_) / kSecond);
}

void VersionMemory::connected(u32 version)
{
	const bool told = talk_ != nullptr;

	/* By ERR_VERS, or for the other reasons, and since it ended now. */
	if ((told && talk_->asked && talk_->version() != rpcordma::v2::version) || attempts_ > 1) {
		avoid_maybe_ = now() + kAvoidance + kMargin;
		if (told && talk_->asked && version)
			avoid_surely_ = talk_->asked_at + kAvoidance - kMillisecond;
	}
	/* It may have failed behind the answer, or behind a question that could not be posted. */
	const bool tried = told && talk_->client_mark &&
			   faults.posting_failures != posting_failures_;
	if (told && !version && (talk_->asked || tried))
		avoid_maybe_ = now() + kAvoidance + kMargin;
	if (!version)
		return;
	REQUIRE(told, "client: connected without anybody");
	REQUIRE(version == talk_->version(), "client: version %u, and %u was agreed on", version,
		talk_->version());
	if (version < spoken_) {
		down_ = true;
		went_down++;
	} else if (version > spoken_ && down_) {
		down_ = false;
		came_back++;
	}
	spoken_ = version;
	const bool steady = changes == changes_;
	const bool may = talk_->client_mark && (talk_->server_mark || parameter_ == 2);
	if (may && steady && attempts_ == 1 && began_ >= avoid_maybe_)
		/*
		 * The question's buffer is mapped first. And a stranger may have called back, without credits, until
		 * nothing is left to ask with: what it was to be told may wait when it has gone.
		 */
		REQUIRE(talk_->asked || strangers_ || faults.mapping_failures != mapping_failures_,
			"client: does not ask for version 2, though it may");
	strangers_ = fabric->strangers;
	if (calm && talk_->asked)
		REQUIRE(version == (talk_->server_mark ? rpcordma::v2::version :
							 rpcordma::v1::version),
			"client: version %u, though nothing was lost", version);
	if (avoid_surely_ && talk_->asked && version == rpcordma::v2::version)
		asked_again++;
}

} // namespace sim
