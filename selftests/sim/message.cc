// SPDX-License-Identifier: GPL-2.0-only
/* The consumer's messages. See message.hh. */
#include "selftests/sim/message.hh"

#include <algorithm>
#include <cstring>

namespace sim {
namespace {

/* Between the data of two executions. */
constexpr u32 kStride = 977;
constexpr u32 kProgram = 100003, kSealed = 6, kUnix = 1, kEnd = 0x600d600d;

/* Bytes of no pattern, from which each call has its own part. */
struct Noise {
	static constexpr u32 kSize = 65536;
	u8 bytes[kSize];
	Noise()
	{
		Random random;

		random.seed(42);
		for (u32 i = 0; i < kSize; i += 8) {
			const u64 word = random.next();
			std::memcpy(bytes + i, &word, 8);
		}
	}
} noise;

class Writer {
public:
	explicit Writer(u32 length)
	{
		bytes_.reserve(length);
	}
	Writer &word(u32 value)
	{
		const u8 bytes[] = {u8(value >> 24), u8(value >> 16), u8(value >> 8), u8(value)};

		bytes_.insert(bytes_.end(), bytes, bytes + 4);
		return *this;
	}
	/* @length bytes of the noise that is @id's, and their pad. */
	Writer &data(u32 id, u32 length)
	{
		u32 at = id * 40503 % Noise::kSize;

		for (u32 left = length; left;) {
			const u32 n = std::min(left, Noise::kSize - at);

			bytes_.insert(bytes_.end(), noise.bytes + at, noise.bytes + at + n);
			left -= n;
			at = 0;
		}
		bytes_.resize(bytes_.size() + (Call::padded(length) - length));
		return *this;
	}
	std::vector<u8> take()
	{
		return std::move(bytes_);
	}

private:
	std::vector<u8> bytes_;
};

u32 word_at(const std::vector<u8> &bytes, u32 index)
{
	const u8 *at = bytes.data() + 4 * index;

	return u32(at[0]) << 24 | u32(at[1]) << 16 | u32(at[2]) << 8 | at[3];
}

void require_equal(const std::vector<u8> &is, const std::vector<u8> &should, const char *what,
		   u32 xid)
{
	REQUIRE(is.size() == should.size(), "%s of xid %#x has %zu bytes instead of %zu", what, xid,
		is.size(), should.size());
	if (!std::memcmp(is.data(), should.data(), is.size()))
		return;
	const auto wrong = std::mismatch(is.begin(), is.end(), should.begin());
	fail("%s of xid %#x: byte %zu of %zu is %#x instead of %#x", what, xid,
	     std::size_t(wrong.first - is.begin()), is.size(), *wrong.first, *wrong.second);
}

} // namespace

std::vector<u8> call_bytes(const Call &call, u32 xid)
{
	Writer out(call.call_length());

	out.word(xid).word(0).word(2).word(kProgram).word(3).word(u32(call.kind));
	out.word(call.sealed ? kSealed : kUnix).word(4 * call.credential);
	out.data(call.id + 1, 4 * call.credential).word(0).word(0);
	out.word(call.id).word(u32(call.kind)).word(call.call_data).word(call.reply_data);
	out.word(call.verifier).word(call.sealed).word(call.trailer).word(call.changes);
	out.word(call.wide_call).word(call.wide_reply).data(call.id + 5, 4 * call.wide_call);
	out.word(call.call_data);
	return out.data(call.id + 2, call.call_data).word(~call.id).word(kEnd).take();
}

u32 xid_of(const std::vector<u8> &bytes)
{
	return word_at(bytes, 0);
}

/* To where the results begin. */
static Writer reply_header(const Call &call, u32 xid, const Stamps &stamps)
{
	Writer out(call.reply_length());

	out.word(xid).word(1).word(0).word(0).word(4 + 4 * call.verifier).word(stamps.reply);
	out.data(call.id + 3 + kStride * stamps.reply, 4 * call.verifier);
	return out;
}

std::vector<u8> reply_bytes(const Call &call, u32 xid, const Stamps &stamps)
{
	Writer out = reply_header(call, xid, stamps);
	const u32 own = call.id + kStride * stamps.execution;

	out.word(0).word(stamps.execution).word(call.id);
	out.data(own + 6, 4 * call.wide_reply).word(call.reply_data);
	out.data(own + 4, call.reply_data);
	if (call.trailer)
		out.word(~call.id).word(kEnd);
	return out.take();
}

std::vector<u8> reply_again(const Call &call, u32 xid, const Stamps &stamps,
			    const std::vector<u8> &results)
{
	std::vector<u8> bytes = reply_header(call, xid, stamps).take();

	bytes.insert(bytes.end(), results.begin(), results.end());
	return bytes;
}

Stamps stamps_of(const std::vector<u8> &bytes, u32 xid)
{
	REQUIRE(bytes.size() >= 24, "the reply of xid %#x has %zu bytes", xid, bytes.size());
	/* Behind the verifier, and a word that says that all is well. */
	const u32 execution_at = 5 + word_at(bytes, 4) / 4 + 1;
	REQUIRE(bytes.size() / 4 > execution_at, "the reply of xid %#x has %zu bytes", xid,
		bytes.size());
	return {word_at(bytes, 5), word_at(bytes, execution_at)};
}

Call check_call(const std::vector<u8> &bytes)
{
	Call call;

	REQUIRE(bytes.size() >= 84 && !(bytes.size() % 4), "a call of %zu bytes", bytes.size());
	const u32 xid = word_at(bytes, 0);
	call.credential = word_at(bytes, 7) / 4;
	REQUIRE(call.credential <= bytes.size() && bytes.size() >= call.call_front(),
		"xid %#x: a call of %zu bytes", xid, bytes.size());
	const u32 at = 10 + call.credential;
	call.id = word_at(bytes, at);
	call.kind = Kind(word_at(bytes, at + 1));
	call.call_data = word_at(bytes, at + 2);
	call.reply_data = word_at(bytes, at + 3);
	call.verifier = word_at(bytes, at + 4);
	call.sealed = word_at(bytes, at + 5);
	call.trailer = word_at(bytes, at + 6);
	call.changes = word_at(bytes, at + 7);
	call.wide_call = word_at(bytes, at + 8);
	call.wide_reply = word_at(bytes, at + 9);
	REQUIRE(call.call_length() == bytes.size(), "xid %#x: a call of %zu bytes instead of %u",
		xid, bytes.size(), call.call_length());
	require_equal(bytes, call_bytes(call, xid), "the call", xid);
	return call;
}

Stamps check_reply(const Call &call, u32 xid, const std::vector<u8> &bytes)
{
	const Stamps stamps = stamps_of(bytes, xid);
	std::vector<u8> is = bytes;
	const u32 data_end = call.reply_front() + call.reply_data;

	for (u32 i = data_end; i < Call::padded(data_end) && i < is.size(); i++)
		is[i] = 0;
	require_equal(is, reply_bytes(call, xid, stamps), "the reply", xid);
	return stamps;
}

} // namespace sim
