-- SPDX-License-Identifier: GPL-2.0-only
--
-- A dissector of RPC-over-RDMA version 2 for Wireshark and tshark: draft-cel-nfsv4-rpcrdma-version-two-03 (V2 below)
-- with draft-dnoveck-nfsv4-rpcrdma-rtrext-01 (RX), and of the private data of a connection (RFC 8797) with the mark
-- by which both ends know that they mean these drafts. Version 1 is left to Wireshark's own dissector.
--
-- It is written from these texts alone, and shares nothing with the module. Fields are rpcordma2.*, with the name that
-- Wireshark's own has for version 1 where they mean the same. These are not on the wire:
--
--	rpcordma2.malformed		why the header cannot be parsed; what came before that is shown
--	rpcordma2.invalid		a rule of the texts that the message breaks, though it can be parsed
--	rpcordma2.group			which part of a group of transmissions this is, in words
--	rpcordma2.transmission_number	the same as a number, from 0, in each transmission of a group
--	rpcordma2.transmission_count	how many the group has, in each of them
--	rpcordma2.group_lead		the frame that began the group
--	rpcordma2.transmission		in the last one: the frame of each
--	rpcordma2.reassembled_in	in the others: the frame of the last one, where the whole message is shown
--	rpcordma2.reassembled		in the last one: the whole RPC message; reassembled_length: its bytes
--	rpcordma2.placed		an item of it that came by send-based placement; placed_in: the frames that had it
--	rpcordma2.not_whole		why there is no whole RPC message though all transmissions came
--	rpcordma2.dropped_in		in the transmissions of a group that broke: the frame that broke it
--	rpcordma2.broken_group		in the frame that broke it: what was lost
--
-- What a later frame decides is shown in an earlier one by who has read the capture once: Wireshark, tshark -2.
--
-- Sends of several packets are put together, and so are the streams of a group; items that came by send-based
-- placement are put where they belong, if the properties of their receiver were captured. The stream goes to
-- Wireshark's RPC dissector when it is whole: not where bytes of it are in chunks. Of a Send of several packets the
-- frame is the one of its last packet, where the Send is shown.

local proto = Proto("rpcordma2", "RPC over RDMA version 2")

local PROC = { [0] = "RDMA2_MSG", [1] = "RDMA2_NOMSG", [4] = "RDMA2_ERROR", [5] = "RDMA2_OPTIONAL",
	[6] = "RDMA2_CONNPROP", [7] = "RDMA2_REQPROP", [8] = "RDMA2_RESPROP", [9] = "RDMA2_UPDPROP" }
local DIRECTION = { [0] = "CALL", [1] = "REPLY" }
local ERROR = { "RDMA2_ERR_VERS", "RDMA2_ERR_BAD_XDR", "RDMA2_ERR_REPLY_RESOURCE", "RDMA2_ERR_INVAL_PROC",
	"RDMA2_ERR_INVAL_OPTION", "RDMA2_ERR_SYSTEM" }
local OPTION = { "ROPT_XMTREQ", "ROPT_XMTRESP", "ROPT_XMTCONT", "ROPT_REPTERR" }
local TYPE = { "XMDTYPE_EXRW", "XMDTYPE_TBSN", "XMDTYPE_CHOOSE", "XMDTYPE_BYSIZE", "XMDTYPE_TOOSHORT",
	"XMDTYPE_NOITEM" }
local PROPERTY = { "RDMA2_PROPID_RBSIZ", "RDMA2_PROPID_BRS", "XPROP_RTRSUPP", "XPROP_RBSTRUCT", "XPROP_REQRXLIM",
	"XPROP_RESPSXLIM" }
local BRS = { [0] = "RDMA2_BKREQSUP_NONE", [1] = "RDMA2_BKREQSUP_INLINE", [2] = "RDMA2_BKREQSUP_GENL" }
local REPTERR = { "OPTRERR_BADHMT", "OPTRERR_BADOMT", "OPTRERR_BADCONT", "OPTRERR_BADSEQ", "OPTRERR_BADXID",
	"OPTRERR_BADOFF", "OPTRERR_BADTBSN", "OPTRERR_BADPL" }

local MSG, NOMSG, OPTIONAL, CONNPROP, REQPROP, RESPROP, UPDPROP = 0, 1, 5, 6, 7, 8, 9
local RPC_ERROR = 4
local CALL, REPLY = 0, 1
local XMTREQ, XMTRESP, XMTCONT = 1, 2, 3
local EXRW, TBSN, CHOOSE, BYSIZE, TOOSHORT, NOITEM = 1, 2, 3, 4, 5, 6
local PRIVATE_IDENTIFIER, MARK, MARK_VERSION = 0xf6ab0e18, 0x72326433, 1

-- The least length of messages; what is shorter is nobody's message.
local LEAST = 16

local f = {}

-- A field of 32 bits: rpcordma2.@name.
local function word(name, text, base, values)
	f[name] = ProtoField.uint32("rpcordma2." .. name, text, base or base.DEC, values)
end

local DEC, HEX = base.DEC, base.HEX
word("xid", "XID", HEX)
word("version", "Version", DEC)
word("flow_control", "Flow Control", DEC)
word("msg_type", "Message Type", DEC, PROC)
word("direction", "Direction", DEC, DIRECTION)
word("inv_handle", "R_key that may be invalidated", HEX)
f.reads = ProtoField.none("rpcordma2.reads", "Read list")
f.writes = ProtoField.none("rpcordma2.writes", "Write list")
f.reply = ProtoField.none("rpcordma2.reply", "Reply chunk")
word("reads_count", "Read list (count)", DEC)
word("writes_count", "Write list (count)", DEC)
word("reply_count", "Reply chunk (count)", DEC)
word("position", "Position in XDR", DEC)
word("segment_count", "Segment count", DEC)
word("rdma_handle", "RDMA handle", HEX)
word("rdma_length", "RDMA length", DEC)
f.rdma_offset = ProtoField.uint64("rpcordma2.rdma_offset", "RDMA offset", HEX)
word("errcode", "Error code", DEC, ERROR)
word("vers_low", "Version low", DEC)
word("vers_high", "Version high", DEC)
word("segment_index", "Segment that is too short, from 1", DEC)
word("length_needed", "Length needed", DEC)
word("optdir", "Direction", DEC, DIRECTION)
word("opttype", "Optional type", DEC, OPTION)
word("optinfo_length", "Length of optinfo", DEC)
f.ddp = ProtoField.none("rpcordma2.ddp", "Item")
word("ddp_count", "Items that are elsewhere (count)", DEC)
word("item_disp", "Displacement", DEC)
word("item_length", "Length", DEC)
word("item_type", "Type", DEC, TYPE)
word("tbsn_offset", "Offset in the first target buffer segment", DEC)
word("tbsn_count", "Target buffer segments (count)", DEC)
word("tbsn", "Target buffer segment", DEC)
f.rsd = ProtoField.none("rpcordma2.rsd", "Directions for the reply")
word("rsd_count", "Directions for the reply (count)", DEC)
word("rsd_begin", "Range of the request, begin", DEC)
word("rsd_end", "Range of the request, end", DEC)
f.rsditem = ProtoField.none("rpcordma2.rsditem", "Item of the reply")
word("rsditem_count", "Items of the reply (count)", DEC)
word("rsditem_minlen", "Least length", DEC)
word("rsditem_type", "Type", DEC, TYPE)
word("rsditem_dsdov", "Longest item by Send", DEC)
word("group_count", "Transmissions in the group", DEC)
word("rsbuf", "Receives for the reply", DEC)
word("pslen", "Length of the stream here", DEC)
word("xnum", "Number of the transmission", DEC)
word("itype", "Type of the first transmission", DEC, OPTION)
for _, which in ipairs({ { "bad", "Bad transmission" }, { "lead", "Earlier transmission" } }) do
	word(which[1] .. "_xid", which[2] .. ", XID", HEX)
	word(which[1] .. "_dir", which[2] .. ", direction", DEC, DIRECTION)
	word(which[1] .. "_seq", which[2] .. ", number", DEC)
end
word("lead_present", "Earlier transmission (count)", DEC)
word("err_which", "Error of the group", DEC, REPTERR)
word("err_expect", "Expected", DEC)
word("err_current", "Received", DEC)
word("err_value", "Value", DEC)
word("err_min", "Least valid", DEC)
word("err_max", "Greatest valid", DEC)
f.property = ProtoField.none("rpcordma2.property", "Property")
word("prop_count", "Properties (count)", DEC)
word("prop_id", "Property", DEC, PROPERTY)
word("prop_length", "Length of its data", DEC)
word("rbsiz", "Receive Buffer Size", DEC)
word("brs", "Backward Request Support", DEC, BRS)
word("rtrsupp", "RTR Support (1 XREQ, 2 XRESP, 4 XCONT)", HEX)
word("rbstruct_length", "Receive Buffer Structure, length", DEC)
word("rbgroup_count", "Groups (count)", DEC)
word("rbgroup_segments", "Segments in the group", DEC)
word("rbseg_length", "Segment length", DEC)
word("rbseg_align", "Segment alignment", DEC)
word("rbseg_flags", "Segment flags (1 DDP)", HEX)
word("reqrxlim", "Request Transmission Receive Limit", DEC)
word("respsxlim", "Response Transmission Send Limit", DEC)
for _, which in ipairs({ { "nochg", "Will not change" }, { "done", "Done" }, { "rejected", "Rejected" } }) do
	word(which[1] .. "_count", which[2] .. " (words)", DEC)
	word(which[1], which[2], HEX)
end
word("payload_length", "Payload stream (bytes)", DEC)
word("rest_length", "Behind the stream (bytes)", DEC)
word("fragment_length", "Part of a Send (bytes)", DEC)
f.malformed = ProtoField.string("rpcordma2.malformed", "Malformed")
f.invalid = ProtoField.string("rpcordma2.invalid", "Invalid")
f.group = ProtoField.string("rpcordma2.group", "Group")
word("transmission_number", "Number of the transmission in its group", DEC)
word("transmission_count", "Transmissions in its group", DEC)
f.transmissions = ProtoField.none("rpcordma2.transmissions", "Transmissions")
for _, frame in ipairs({ { "group_lead", "First transmission in frame" }, { "transmission", "Frame" },
	{ "reassembled_in", "Whole message in frame" }, { "dropped_in", "Group broken in frame" },
	{ "placed_in", "Frame" } }) do
	f[frame[1]] = ProtoField.framenum("rpcordma2." .. frame[1], frame[2], base.NONE)
end
f.reassembled = ProtoField.bytes("rpcordma2.reassembled", "RPC message")
word("reassembled_length", "Length of the RPC message", DEC)
f.placed = ProtoField.bytes("rpcordma2.placed", "Item by Send")
f.not_whole = ProtoField.string("rpcordma2.not_whole", "No whole RPC message")
f.broken_group = ProtoField.string("rpcordma2.broken_group", "Broken group")
f.private_version = ProtoField.uint8("rpcordma2.private_version", "Private data, version", DEC)
f.private_flags = ProtoField.uint8("rpcordma2.private_flags", "Private data, flags (1 R)", HEX)
word("private_send", "Private data, send size", DEC)
word("private_receive", "Private data, receive size", DEC)
word("private_mark", "Mark of version 2", HEX)
f.private_mark_version = ProtoField.uint8("rpcordma2.private_mark_version", "Mark of version 2, its version", DEC)
proto.fields = f

local e_malformed = ProtoExpert.new("rpcordma2.expert.malformed", "The header cannot be parsed",
	expert.group.MALFORMED, expert.severity.ERROR)
local e_invalid = ProtoExpert.new("rpcordma2.expert.invalid", "The message breaks a rule", expert.group.PROTOCOL,
	expert.severity.WARN)
local e_broken = ProtoExpert.new("rpcordma2.expert.broken_group", "A group of transmissions is lost",
	expert.group.SEQUENCE, expert.severity.WARN)
local e_unended = ProtoExpert.new("rpcordma2.expert.unended_group", "A group of transmissions has no end",
	expert.group.SEQUENCE, expert.severity.NOTE)
proto.experts = { e_malformed, e_invalid, e_broken, e_unended }

local get_opcode = Field.new("infiniband.bth.opcode")
local get_qp = Field.new("infiniband.bth.destqp")
local get_psn = Field.new("infiniband.bth.psn")
local get_padding = Field.new("infiniband.bth.padcnt")
local get_crc = Field.new("infiniband.invariant.crc")
local get_iwarp_opcode, get_iwarp_message = Field.new("iwarp_rdma.opcode"), Field.new("iwarp_ddp.msn")

-- Opcodes of a Send over a reliable connection.
local FIRST, MIDDLE, LAST, ONLY = { [0] = true }, { [1] = true }, { [2] = true, [3] = true, [0x16] = true },
	{ [4] = true, [5] = true, [0x17] = true }
-- Of a datagram, by which connections are made.
local DATAGRAM = 0x64
-- Of Sends, those with another word behind the BTH.
local WITH_WORD = { [3] = true, [5] = true, [0x16] = true, [0x17] = true }

-- --- what is known of connections ---

-- A base transport header: @opcode, @qp to which it goes, @psn, @padding of the packet; by Wireshark's fields, or nil.
local function bth_of_fields()
	local opcode, qp, psn, padding = get_opcode(), get_qp(), get_psn(), get_padding()

	return opcode and qp and psn and { opcode = opcode.value, qp = qp.value, psn = psn.value,
		padding = padding and padding.value or 0 }
end

-- The same by the bytes of an Ethernet frame with RoCE v2, and where what is behind it begins and ends; or nil. The first
-- of two passes has no fields, unless there is a filter.
local function bth_of_frame(tvb)
	local at = 12

	-- VLAN tags.
	while at + 2 <= tvb:len() and (tvb(at, 2):uint() == 0x8100 or tvb(at, 2):uint() == 0x88a8) do
		at = at + 4
	end
	if at + 22 > tvb:len() then
		return nil
	end
	local kind, first = tvb(at, 2):uint(), tvb(at + 2, 1):uint()

	at = at + 2
	if kind == 0x0800 and first >= 0x45 and first <= 0x4f and tvb(at + 9, 1):uint() == 17 then
		at = at + first % 16 * 4
	elseif kind == 0x86dd and tvb(at + 6, 1):uint() == 17 then
		at = at + 40
	else
		return nil
	end
	if at + 8 + 12 + 4 > tvb:len() or tvb(at + 2, 2):uint() ~= 4791 then
		return nil
	end
	-- What makes a short frame longer is no part of it; the invariant CRC is the end of the datagram.
	local last = math.min(at + tvb(at + 4, 2):uint(), tvb:len()) - 4

	at = at + 8
	if last < at + 12 then
		return nil
	end
	return { opcode = tvb(at, 1):uint(), padding = math.floor(tvb(at + 1, 1):uint() / 16) % 4,
		qp = tvb(at + 5, 3):uint(), psn = tvb(at + 9, 3):uint() }, at + 12, last
end

-- One for each direction, by its receiver's address and queue pair: see stream_of(). And what the first pass found
-- out of a packet, as later ones come in any order.
local streams, packets, pairs_of_queues, requests, last_between

local function forget()
	streams, packets, pairs_of_queues, requests, last_between = {}, {}, {}, {}, {}
end

proto.init = forget
forget()

-- @bth: a base transport header, or nil over iWARP, where the TCP connection is meant.
local function stream_of(pinfo, bth)
	local to, from = tostring(pinfo.net_dst), tostring(pinfo.net_src)
	local key = to .. "/" .. (bth and tostring(bth.qp) or pinfo.dst_port .. "<" .. pinfo.src_port)

	if not streams[key] then
		streams[key] = { key = key, between = from .. ">" .. to, back = to .. ">" .. from }
	end
	return streams[key]
end

-- The other direction, or nil. Without the connection's begin it is the last one between the two addresses.
local function reverse(stream)
	local key = pairs_of_queues[stream.key] or last_between[stream.back]
	return key and streams[key]
end

-- --- reading ---

-- How a header that cannot be parsed ends its reading.
local Malformed = {}

local function malformed(...)
	error(setmetatable({ why = string.format(...) }, Malformed), 0)
end

local Reader = {}
Reader.__index = Reader

local function reader(tvb, at, last)
	return setmetatable({ tvb = tvb, at = at, last = last }, Reader)
end

function Reader:left()
	return self.last - self.at
end

function Reader:need(size, what)
	if self:left() < size then
		malformed("cut short in %s", what)
	end
end

-- The next 32 bits, without a field.
function Reader:peek(what)
	self:need(4, what)
	return self.tvb(self.at, 4):uint()
end

function Reader:word(tree, name)
	local value = self:peek(name)

	tree:add(f[name], self.tvb(self.at, 4))
	self.at = self.at + 4
	return value
end

-- A word that is one of @values.
function Reader:enum(tree, name, values)
	local value = self:word(tree, name)

	if not values[value] then
		malformed("%s is %u", name, value)
	end
	return value
end

-- How many elements follow, each of at least @size bytes.
function Reader:count(tree, name, size)
	local value = self:word(tree, name)

	if value * size > self:left() then
		malformed("%s is %u, with %d bytes behind", name, value, self:left())
	end
	return value
end

function Reader:boolean(what)
	local value = self:peek(what)

	if value > 1 then
		malformed("%s: %u is no boolean", what, value)
	end
	self.at = self.at + 4
	return value == 1
end

function Reader:segment(tree)
	local handle = self:word(tree, "rdma_handle")
	local length = self:word(tree, "rdma_length")

	self:need(8, "rdma_offset")
	tree:add(f.rdma_offset, self.tvb(self.at, 8))
	self.at = self.at + 8
	return { handle = handle, length = length }
end

function Reader:segments(tree)
	local found = {}

	for _ = 1, self:count(tree, "segment_count", 16) do
		found[#found + 1] = self:segment(tree)
	end
	return found
end

-- A part of @tree that ends where its reading ends.
function Reader:within(tree, field, fill)
	local from = self.at
	local item = tree:add(field, self.tvb(from, self:left()))
	local value = fill(item)

	item:set_len(self.at - from)
	return value
end

-- --- the parts of messages ---

-- @m collects what the rules need to know of a message.
local function chunk_lists(m, r, tree)
	m.direction = r:enum(tree, "direction", DIRECTION)
	r:word(tree, "inv_handle")
	m.reads, m.writes = {}, {}
	if r:peek("the Read list") == 0 then
		tree:add(f.reads_count, r.tvb(r.at, 4), 0)
		r.at = r.at + 4
	else
		r:within(tree, f.reads, function(item)
			local from = r.at

			while r:boolean("the Read list") do
				local position = r:word(item, "position")
				m.reads[#m.reads + 1] = { position = position, segment = r:segment(item) }
			end
			item:add(f.reads_count, r.tvb(r.at - 4, 4), #m.reads):set_generated()
		end)
	end
	if r:peek("the Write list") == 0 then
		tree:add(f.writes_count, r.tvb(r.at, 4), 0)
		r.at = r.at + 4
	else
		r:within(tree, f.writes, function(item)
			while r:boolean("the Write list") do
				m.writes[#m.writes + 1] = r:segments(item)
			end
			item:add(f.writes_count, r.tvb(r.at - 4, 4), #m.writes):set_generated()
		end)
	end
	r:within(tree, f.reply, function(item)
		local there = r:boolean("the Reply chunk")

		item:add(f.reply_count, r.tvb(r.at - 4, 4))
		if there then
			m.reply = r:segments(item)
		end
	end)
end

local function property(r, tree, set)
	local id = r:word(tree, "prop_id")
	local length = r:word(tree, "prop_length")
	local padded = length + (4 - length % 4) % 4

	if padded > r:left() then
		malformed("property %u: %u bytes, with %d behind", id, length, r:left())
	end
	tree:append_text(": " .. (PROPERTY[id] or string.format("%u, unknown", id)))
	local data = reader(r.tvb, r.at, r.at + length)
	r.at = r.at + padded
	if not PROPERTY[id] then
		return
	end
	if length == 0 then
		tree:append_text(", default")
		set[id] = false
		return
	end
	if id == 4 then
		local structure = { length = data:word(tree, "rbstruct_length"), groups = {} }

		for _ = 1, data:count(tree, "rbgroup_count", 16) do
			structure.groups[#structure.groups + 1] = { count = data:word(tree, "rbgroup_segments"),
				length = data:word(tree, "rbseg_length"), align = data:word(tree, "rbseg_align"),
				flags = data:word(tree, "rbseg_flags") }
		end
		set[id] = structure
	elseif id == 2 then
		set[id] = data:enum(tree, "brs", BRS)
	else
		set[id] = data:word(tree, ({ "rbsiz", "", "rtrsupp", "", "reqrxlim", "respsxlim" })[id])
	end
	if data:left() ~= 0 then
		malformed("property %u: %d bytes behind its value", id, data:left())
	end
end

local function properties(r, tree)
	local set = {}

	for _ = 1, r:count(tree, "prop_count", 8) do
		r:within(tree, f.property, function(item)
			property(r, item, set)
		end)
	end
	return set
end

local function subset(r, tree, name)
	for _ = 1, r:count(tree, name .. "_count", 4) do
		r:word(tree, name)
	end
end

local function mitem(r, tree)
	local item = { disp = r:word(tree, "item_disp"), length = r:word(tree, "item_length") }

	item.type = r:word(tree, "item_type")
	if item.type == EXRW then
		item.segments = r:segments(tree)
	elseif item.type == TBSN then
		item.offset = r:word(tree, "tbsn_offset")
		item.tbsn = {}
		for _ = 1, r:count(tree, "tbsn_count", 4) do
			item.tbsn[#item.tbsn + 1] = r:word(tree, "tbsn")
		end
	elseif item.type ~= TOOSHORT and item.type ~= NOITEM then
		malformed("item_type is %u", item.type)
	end
	tree:append_text(string.format(": %u bytes at %u, %s", item.length, item.disp, TYPE[item.type]))
	return item
end

local function mitems(r, tree)
	local found = {}

	for _ = 1, r:count(tree, "ddp_count", 12) do
		found[#found + 1] = r:within(tree, f.ddp, function(item)
			return mitem(r, item)
		end)
	end
	return found
end

local function rsdset(r, tree)
	local set = { first = r:word(tree, "rsd_begin"), last = r:word(tree, "rsd_end") }

	for _ = 1, r:count(tree, "rsditem_count", 8) do
		r:within(tree, f.rsditem, function(item)
			r:word(item, "rsditem_minlen")
			local kind = r:word(item, "rsditem_type")

			if kind == BYSIZE then
				r:word(item, "rsditem_dsdov")
			end
			if kind == EXRW or kind == CHOOSE or kind == BYSIZE then
				r:segments(item)
			elseif kind ~= TBSN then
				malformed("rsditem_type is %u", kind)
			end
		end)
	end
	return set
end

local function transmission_id(r, tree, which)
	r:word(tree, which .. "_xid")
	r:enum(tree, which .. "_dir", DIRECTION)
	r:word(tree, which .. "_seq")
end

local function repterr(r, tree)
	transmission_id(r, tree, "bad")
	local there = r:boolean("optre_lead")

	tree:add(f.lead_present, r.tvb(r.at - 4, 4))
	if there then
		transmission_id(r, tree, "lead")
	end
	local which = r:enum(tree, "err_which", REPTERR)

	if which == 1 or which == 2 or which == 4 or which == 5 then
		r:word(tree, "err_expect")
		r:word(tree, "err_current")
	elseif which ~= 3 then
		r:word(tree, "err_value")
		r:word(tree, "err_min")
		r:word(tree, "err_max")
	end
end

-- All that is an RDMA2_OPTIONAL's: RX 9.
local function optional(m, r, tree)
	m.direction = r:enum(tree, "optdir", DIRECTION)
	m.option = r:word(tree, "opttype")
	if not OPTION[m.option] then
		m.refused = string.format("INVAL_OPTION: there is no opttype %u", m.option)
		m.unread = true
		-- Its optinfo is not read, so it may be anything.
		r:word(tree, "optinfo_length")
		return
	end
	local length = r:word(tree, "optinfo_length")

	if length + (4 - length % 4) % 4 > r:left() then
		malformed("optinfo_length is %u, with %d bytes behind", length, r:left())
	end
	local info = reader(r.tvb, r.at, r.at + length)
	r.at = r.at + length + (4 - length % 4) % 4

	if m.option == XMTREQ then
		m.items = mitems(info, tree)
		m.rsd = {}
		for _ = 1, info:count(tree, "rsd_count", 12) do
			m.rsd[#m.rsd + 1] = info:within(tree, f.rsd, function(item)
				return rsdset(info, item)
			end)
		end
		m.count = info:word(tree, "group_count")
		info:word(tree, "rsbuf")
		m.pslen = info:word(tree, "pslen")
	elseif m.option == XMTRESP then
		m.items = mitems(info, tree)
		m.count = info:word(tree, "group_count")
		m.pslen = info:word(tree, "pslen")
	elseif m.option == XMTCONT then
		m.xnum = info:word(tree, "xnum")
		m.itype = info:word(tree, "itype")
		m.pslen = info:word(tree, "pslen")
	else
		repterr(info, tree)
	end
	if info:left() ~= 0 then
		malformed("optinfo: %d bytes behind %s", info:left(), OPTION[m.option])
	end
	if m.option == XMTRESP and m.direction == CALL then
		m.refused = "INVAL_OPTION: ROPT_XMTRESP is no CALL"
	end
end

local function header(m, r, tree)
	m.xid = r:word(tree, "xid")
	r:word(tree, "version")
	r:word(tree, "flow_control")
	m.proc = r:word(tree, "msg_type")
	if m.proc == MSG or m.proc == NOMSG then
		chunk_lists(m, r, tree)
	elseif m.proc == RPC_ERROR then
		m.code = r:enum(tree, "errcode", ERROR)
		if m.code == 1 then
			r:word(tree, "vers_low")
			r:word(tree, "vers_high")
		elseif m.code == 3 then
			r:word(tree, "segment_index")
			r:word(tree, "length_needed")
		end
	elseif m.proc == OPTIONAL then
		optional(m, r, tree)
	elseif m.proc == CONNPROP then
		m.properties = properties(r, tree)
		subset(r, tree, "nochg")
	elseif m.proc == REQPROP then
		properties(r, tree)
	elseif m.proc == RESPROP then
		subset(r, tree, "done")
		subset(r, tree, "rejected")
		properties(r, tree)
	elseif m.proc == UPDPROP then
		m.properties = properties(r, tree)
	else
		m.refused = string.format("INVAL_PROC: there is no proc %u", m.proc)
		m.unread = true
	end
end

-- --- rules ---

-- subset() refuses an empty range.
local function part_of(bytes, at, length)
	return length > 0 and bytes:subset(at, length) or ByteArray.new()
end

local function word_at(bytes, at)
	return ((bytes:get_index(at) * 256 + bytes:get_index(at + 1)) * 256 + bytes:get_index(at + 2)) * 256 +
		bytes:get_index(at + 3)
end

-- Length of the RPC header in @bytes, or nil where it is cut short: a CALL's up to its arguments, a REPLY's first
-- two words.
local function rpc_header(bytes)
	if bytes:len() < 8 then
		return nil
	end
	if word_at(bytes, 4) ~= CALL then
		return 8
	end
	local at = 24

	-- Credential, verifier: flavour, then counted bytes.
	for _ = 1, 2 do
		if at + 8 > bytes:len() then
			return nil
		end
		local length = word_at(bytes, at + 4)
		at = at + 8 + length + (4 - length % 4) % 4
		if at > bytes:len() then
			return nil
		end
	end
	return at
end

-- What is wrong with the RPC message's begin, @bytes of it: where an item or a chunk may begin at the earliest. If the
-- message @goes_on in other transmissions, its RPC header may.
local function begin_of_rpc(m, bytes, goes_on)
	local length = rpc_header(bytes)

	if bytes:len() < 8 then
		return nil, string.format("a payload of %d bytes has no RPC header", bytes:len())
	end
	if word_at(bytes, 0) ~= m.xid then
		return nil, "the RPC message has another xid"
	end
	if word_at(bytes, 4) ~= m.direction then
		return nil, "the RPC message has another direction"
	end
	if not length and not goes_on then
		return nil, "the RPC header is cut short"
	end
	return length or 0
end

-- The first rule of V2 that an RDMA2_MSG or RDMA2_NOMSG with @bytes behind its header breaks, or nil.
local function judge_chunks(m, bytes)
	local zero = false

	for _, read in ipairs(m.reads) do
		zero = zero or read.position == 0
		if read.position % 4 ~= 0 then
			return string.format("Position %u", read.position)
		end
	end
	if m.proc == NOMSG then
		-- A reply is in the Reply chunk.
		return m.direction == CALL and not zero and "RDMA2_NOMSG without a Position Zero Read chunk" or nil
	end
	local begin, wrong = begin_of_rpc(m, bytes)

	if wrong then
		return wrong
	end
	for _, read in ipairs(m.reads) do
		if read.position == 0 then
			return "RDMA2_MSG with a Position Zero Read chunk"
		end
		if read.position < begin then
			return string.format("Position %u is inside the RPC header", read.position)
		end
	end
end

-- The target buffer segments of the receiver: their common length, and where the first is in a transmission. nil
-- where nothing is known of them.
local function target_buffers(structure)
	local at, first, length, count = 0, nil, nil, 0

	if not structure then
		return nil
	end
	for _, group in ipairs(structure.groups) do
		if group.flags % 2 == 1 then
			first = first or at
			if length and length ~= group.length then
				return nil
			end
			length = group.length
			count = count + group.count
		elseif first then
			return nil
		end
		at = at + group.count * group.length
	end
	if at ~= structure.length then
		return nil
	end
	return { first = first or at, length = length or 0, count = count }
end

-- The first rule of RX that the begin of a group breaks, or nil.
local function judge_group(m, bytes, buffers)
	local begin, behind = 0, 0
	local previous, total

	if m.count == 0 then
		return "a group of no transmission"
	end
	for _, item in ipairs(m.items) do
		-- NOITEM stands for nothing in the stream.
		if item.type ~= NOITEM then
			if item.disp % 4 ~= 0 then
				return string.format("an item at %u", item.disp)
			end
			if previous and (item.disp <= previous or item.disp < behind) then
				return string.format("an item at %u behind one at %u", item.disp, previous)
			end
			previous = item.disp
			-- What is in the stream has no length of its own here.
			if item.type == EXRW or item.type == TBSN then
				behind = item.disp + item.length + (4 - item.length % 4) % 4
			end
		end
		if m.option == XMTREQ and (item.type == TOOSHORT or item.type == NOITEM) then
			return TYPE[item.type] .. " in a request"
		end
		if item.type == EXRW then
			total = 0
			for _, segment in ipairs(item.segments) do
				total = total + segment.length
			end
			if total ~= item.length and total ~= item.length + (4 - item.length % 4) % 4 then
				return string.format("an item of %u bytes in segments of %u", item.length, total)
			end
		end
	end
	previous = nil
	for _, set in ipairs(m.rsd or {}) do
		if set.first > set.last then
			return string.format("a range from %u to %u", set.first, set.last)
		end
		if previous and set.first <= previous then
			return string.format("a range from %u behind one to %u", set.first, previous)
		end
		previous = set.last
	end
	-- Of the stream only what is here can be looked at.
	if m.pslen > bytes:len() then
		return string.format("BADPL: a stream of %u bytes, with %d behind the header", m.pslen, bytes:len())
	end
	if m.pslen % 4 ~= 0 then
		return string.format("BADPL: a stream of %u bytes", m.pslen)
	end
	local wrong
	begin, wrong = begin_of_rpc(m, part_of(bytes, 0, m.pslen), m.count > 1)
	if wrong then
		return wrong
	end
	local taken, excised = {}, 0

	for _, item in ipairs(m.items) do
		local inside = item.type == EXRW or item.type == TBSN

		if inside and item.disp < begin then
			return string.format("an item at %u is inside the RPC header", item.disp)
		end
		if inside and m.count == 1 and item.disp - excised > m.pslen then
			return string.format("BADPL: an item at %u of a stream of %u bytes", item.disp, m.pslen + excised)
		end
		if inside then
			excised = excised + item.length + (4 - item.length % 4) % 4
		end
		if item.type == TBSN and buffers then
			local left, offset = item.length, item.offset

			if offset >= buffers.length and left > 0 and buffers.count > 0 then
				return string.format("BADOFF: %u in a segment of %u bytes", offset, buffers.length)
			end
			for _, number in ipairs(item.tbsn) do
				if number >= buffers.count * m.count then
					return string.format("BADTBSN: there is no segment %u", number)
				end
				local size = math.max(0, math.min(left, buffers.length - offset))

				-- In the first transmission: are the bytes there, and nobody else's?
				if number < buffers.count then
					local last = buffers.first + number * buffers.length + offset + size

					if size > 0 and last > m.length then
						return string.format("BADTBSN: segment %u was not received", number)
					end
				end
				for _, other in ipairs(taken[number] or {}) do
					if offset < other[2] and other[1] < offset + size then
						return string.format("BADOFF: items overlap in segment %u", number)
					end
				end
				taken[number] = taken[number] or {}
				table.insert(taken[number], { offset, offset + size })
				left, offset = left - size, 0
			end
			if left > 0 then
				return string.format("BADTBSN: %u bytes of an item are in no segment", left)
			end
		end
	end
end

-- --- groups ---

-- A group: its @xid, its @option and its @count; the @items of its first transmission, which is in the frame @lead;
-- @head is where that one's stream begins; @buffers are its receiver's. Of each of @parts, the transmissions that
-- came: @frame, @length of its stream, and until the group ends @stream and @message, the bytes of both, with the
-- stream at @at. In the end it has @whole_in or @dropped_in, frames.

-- Is @m, which is no part of a group that is open, the first transmission of one?
local function leads(m)
	return (m.option == XMTREQ or m.option == XMTRESP) and m.count ~= nil
end

-- The group of @stream that is open ends without being whole.
local function drop_group(m, stream)
	local open = stream.open

	open.dropped_in = m.frame
	m.broke = open
	stream.open = nil
end

local function add_part(group, m, bytes, message)
	group.parts[#group.parts + 1] = { frame = m.frame, length = m.pslen, at = m.stream_at,
		stream = part_of(bytes, 0, m.pslen), message = message }
	m.of, m.number = group, #group.parts - 1
	m.group = string.format("%d of %d", #group.parts, group.count)
	if #group.parts == group.count then
		group.whole_in = m.frame
		m.whole = group
	end
end

-- What @m is in the group that is open in @stream, or that it opens: sets m.of and m.number, m.broke, m.invalid.
-- The whole group is m.whole when it is the last.
local function follow_group(m, stream, bytes, message, buffers)
	local open = stream.open

	if m.option == XMTCONT and not m.malformed then
		if not open then
			local skipped = stream.skip

			if skipped and skipped.xid == m.xid then
				m.group = "of a group that is dropped"
				m.of = skipped
				return
			end
			stream.skip = nil
			m.invalid = m.invalid or "BADCONT: no group is open"
			return
		end
		if m.itype ~= open.option then
			m.invalid = string.format("BADOMT: the group was begun by %s", OPTION[open.option])
		elseif m.xid ~= open.xid then
			m.invalid = string.format("BADXID: 0x%x is expected", open.xid)
		elseif m.xnum ~= #open.parts then
			m.invalid = string.format("BADSEQ: transmission %d is expected", #open.parts)
		elseif m.pslen > bytes:len() then
			m.invalid = string.format("BADPL: a stream of %u bytes, with %d behind the header", m.pslen,
				bytes:len())
		elseif m.pslen % 4 ~= 0 then
			m.invalid = string.format("BADPL: a stream of %u bytes", m.pslen)
		end
		if m.invalid then
			stream.skip = open
			drop_group(m, stream)
			return
		end
		add_part(open, m, bytes, message)
		if m.whole then
			stream.open = nil
		end
		return
	end
	-- What is wrong with @m itself: it is handled whether or not a group was open.
	local wrong = m.refused or m.invalid

	if open then
		if not m.malformed then
			m.invalid = string.format("%s: a group is open", m.proc == OPTIONAL and "BADOMT" or "BADHMT")
		end
		drop_group(m, stream)
	end
	-- What else is sent of it is passed over.
	stream.skip = m.option == XMTCONT and m.broke or nil
	if m.malformed or not leads(m) then
		return
	end
	local lead = { xid = m.xid, option = m.option, count = m.count, items = m.items, lead = m.frame,
		buffers = buffers, parts = {} }

	if wrong then
		if m.count > 1 then
			lead.dropped_in = m.frame
			stream.skip = lead
		end
		return
	end
	add_part(lead, m, bytes, message)
	if not m.whole then
		stream.open = lead
	end
end

-- Where item @item of @group is: calls take(part, from, size) for each piece of it, which has @size bytes at @from
-- of the transmission @part, and number, its segment. Ends with what take() returns if that is something.
local function each_piece(group, item, take)
	local buffers = group.buffers
	local left, offset = item.length, item.offset

	for _, number in ipairs(item.tbsn) do
		local size = math.max(0, math.min(left, buffers.length - offset))
		local part = group.parts[math.floor(number / buffers.count) + 1]
		local from = buffers.first + number % buffers.count * buffers.length + offset
		local result = take(part, from, size, number)

		if result then
			return result
		end
		left, offset = left - size, 0
	end
end

-- What is wrong with the places of @group's items, now that all of its transmissions are here, or nil.
local function judge_places(group)
	local total, excised = 0, 0

	for _, part in ipairs(group.parts) do
		total = total + part.length
	end
	for _, item in ipairs(group.items) do
		if item.type == EXRW or item.type == TBSN then
			if item.disp - excised > total then
				return string.format("BADPL: an item at %u of a stream of %u bytes", item.disp,
					total + excised)
			end
			excised = excised + item.length + (4 - item.length % 4) % 4
		end
		if item.type == TBSN and group.buffers then
			local wrong = each_piece(group, item, function(part, from, size, number)
				if size > 0 and from + size > part.message:len() then
					return string.format("BADTBSN: segment %u was not received", number)
				end
				if size > 0 and from < part.at + part.length then
					return string.format("BADPL: a stream of %u bytes reaches into segment %u",
						part.length, number)
				end
			end)
			if wrong then
				return wrong
			end
		end
	end
end

-- The RPC message of a whole group: the streams of its parts, with the items where they belong; or nil and why not.
-- What is known of the items is left in group.placed.
local function rpc_message(group)
	local stream, virtual, at = ByteArray.new(), ByteArray.new(), 0

	for _, part in ipairs(group.parts) do
		stream:append(part.stream)
	end
	group.placed = {}
	for _, item in ipairs(group.items) do
		if item.type == EXRW and item.length > 0 then
			return nil, string.format("the item of %u bytes at %u is in memory of the requester's",
				item.length, item.disp)
		end
		if item.type == TBSN then
			if not group.buffers then
				return nil, "the buffers of the receiver are not known"
			end
			local before, pieces = item.disp - virtual:len(), {}

			if before < 0 or at + before > stream:len() then
				return nil, string.format("the item at %u is in another one", item.disp)
			end
			virtual:append(part_of(stream, at, before))
			at = at + before

			each_piece(group, item, function(part, from, size, number)
				virtual:append(part_of(part.message, from, size))
				pieces[#pieces + 1] = { frame = part.frame, from = from, size = size, number = number }
			end)
			local pad = (4 - item.length % 4) % 4

			virtual:append(ByteArray.new(string.rep("00", pad)))
			group.placed[#group.placed + 1] = { disp = item.disp, length = item.length, pieces = pieces }
		end
	end
	virtual:append(part_of(stream, at, stream:len() - at))
	return virtual
end

-- --- messages ---

local rpc

-- What the message alone says is in @m; this has what depends on others, once, on the first pass.
local function remember(m, stream, bytes, message, again)
	local there = reverse(stream)
	local known = {}

	if again then
		known.group = "sent again"
		return known
	end
	last_between[stream.between] = stream.key
	stream.known = true
	if m.properties then
		-- What is not in a CONNPROP has its default; an UPDPROP changes what is in it.
		if m.proc == CONNPROP or not stream.properties then
			stream.properties = {}
		end
		for id, value in pairs(m.properties) do
			stream.properties[id] = value
		end
	end
	local buffers = target_buffers(there and there.properties and there.properties[4])

	if (m.option == XMTREQ or m.option == XMTRESP) and not m.refused and not m.malformed then
		m.invalid = m.direction ~= (m.option == XMTREQ and CALL or REPLY) and "an XMTREQ that is a REPLY" or
			judge_group(m, bytes, buffers)
	end
	follow_group(m, stream, bytes, message, buffers)
	if m.whole then
		local wrong = judge_places(m.whole)

		if wrong then
			m.invalid = wrong
			m.whole.whole_in, m.whole.dropped_in = nil, m.frame
			m.broke = m.whole.count > 1 and m.whole
		else
			known.whole = m.whole
			known.virtual, known.not_whole = rpc_message(m.whole)
			if known.virtual and not rpc_header(known.virtual) then
				m.invalid = "the RPC header is cut short"
			end
		end
		-- Only lengths and frames are shown from here on.
		for _, part in ipairs(m.whole.parts) do
			part.stream, part.message = nil, nil
		end
	end
	known.invalid, known.group, known.of, known.number, known.broke = m.invalid, m.group, m.of, m.number, m.broke
	return known
end

-- What is known of the group of a transmission, and of the one that it broke.
local function show_group(tree, known, pinfo, read_before)
	local group, broke = known.of, known.broke

	local function frame(where, field, number)
		return where:add(f[field], number):set_generated()
	end

	if known.group then
		tree:add(f.group, known.group):set_generated()
	end
	if group then
		if known.number then
			tree:add(f.transmission_number, known.number):set_generated()
			tree:add(f.transmission_count, group.count):set_generated()
		end
		if group.lead ~= pinfo.number then
			frame(tree, "group_lead", group.lead)
		end
		if group.dropped_in and group.dropped_in ~= pinfo.number then
			local item = frame(tree, "dropped_in", group.dropped_in)

			if group.lead == pinfo.number then
				item:add_proto_expert_info(e_broken, string.format(
					"Frame %d breaks this group", group.dropped_in))
			end
		elseif group.whole_in and group.whole_in ~= pinfo.number then
			frame(tree, "reassembled_in", group.whole_in)
		elseif not group.whole_in and not group.dropped_in and group.lead == pinfo.number and read_before then
			tree:add_proto_expert_info(e_unended, string.format(
				"Of this group the capture has %d of %d transmissions", #group.parts, group.count))
		end
	end
	if broke then
		local item = tree:add(f.broken_group, string.format(
			"XID 0x%08x, begun in frame %d: %d of its %u transmissions were taken", broke.xid, broke.lead,
			#broke.parts, broke.count))

		item:set_generated()
		item:add_proto_expert_info(e_broken, string.format("The group of XID 0x%08x is lost", broke.xid))
		if not group or group.lead ~= broke.lead then
			frame(item, "group_lead", broke.lead)
		end
	end
end

-- The whole message of a group, and where its parts came from. @message: a buffer, or nil.
local function show_whole(tree, known, message)
	local group = known.whole

	if group.count > 1 then
		local total = 0
		local list = tree:add(f.transmissions)

		list:set_generated()
		for i, part in ipairs(group.parts) do
			local item = list:add(f.transmission, part.frame)

			item:set_generated()
			item:append_text(part.length == 0 and string.format(", transmission %d: nothing of the stream", i - 1) or
				string.format(", transmission %d: %u to %u of the stream (%u bytes)", i - 1, total,
					total + part.length - 1, part.length))
			total = total + part.length
		end
		list:append_text(string.format(": %u, with a stream of %u bytes", group.count, total))
	end
	if not message then
		if known.not_whole then
			tree:add(f.not_whole, known.not_whole):set_generated()
		end
		return
	end
	tree:add(f.reassembled_length, message:len()):set_generated()
	if group.count > 1 or #group.placed > 0 then
		tree:add(f.reassembled, message:range()):set_generated()
	end
	for _, item in ipairs(group.placed) do
		local shown = item.length > 0 and tree:add(f.placed, message(item.disp, item.length)) or tree:add(f.placed)

		shown:set_generated()
		shown:append_text(string.format(", %u bytes at %u of the message", item.length, item.disp))
		for _, piece in ipairs(item.pieces) do
			local from = shown:add(f.placed_in, piece.frame)

			from:set_generated()
			from:append_text(string.format(", segment %u: %u bytes at %u of the transmission", piece.number,
				piece.size, piece.from))
		end
	end
end

-- @part tells apart messages of one frame.
local function dissect(tvb, pinfo, root, stream, again, part)
	local m = { length = tvb:len() }
	local r = reader(tvb, 0, tvb:len())
	local tree = root:add(proto, tvb())
	local good, why = pcall(header, m, r, tree)

	if not good then
		if getmetatable(why) ~= Malformed then
			error(why, 0)
		end
		m.malformed = why.why
	end
	local words = m.option and OPTION[m.option] or PROC[m.proc] or "unknown proc"
	tree:append_text(string.format(", %s, XID 0x%08x", words, m.xid))
	pinfo.cols.protocol = "RPCoRDMA2"
	pinfo.cols.info = string.format("%s XID 0x%08x", words, m.xid)
	if m.direction then
		pinfo.cols.info:append(" " .. DIRECTION[m.direction])
	end

	-- bytes() refuses an empty range.
	local bytes = ByteArray.new()
	local stream_at = r.at

	if not m.malformed and r:left() > 0 then
		bytes = tvb(r.at, r:left()):bytes()
	end
	if not m.malformed and not m.refused and (m.proc == MSG or m.proc == NOMSG) then
		m.invalid = judge_chunks(m, bytes)
	end
	local key = pinfo.number .. (part or "")
	packets[key] = packets[key] or {}
	m.frame, m.stream_at = pinfo.number, stream_at
	local known, read_before = packets[key].known, true

	if not known then
		known, read_before = remember(m, stream, bytes, tvb:bytes(), again), false
		packets[key].known = known
	end

	-- An empty range has no place at the end of a buffer.
	local function add(field, at, length)
		tree:add(field, tvb(math.min(at, tvb:len() - 1), length), length)
	end

	if not m.malformed and not m.unread then
		local here = bytes:len()

		if m.pslen then
			here = math.min(m.pslen, here)
		elseif m.proc ~= MSG then
			here = 0
		end
		if m.pslen or m.proc == MSG then
			add(f.payload_length, stream_at, here)
		end
		if here < bytes:len() then
			add(f.rest_length, stream_at + here, bytes:len() - here)
		end
	end
	show_group(tree, known, pinfo, read_before)
	if m.malformed then
		local item = tree:add(f.malformed, m.malformed)
		item:set_generated()
		item:add_proto_expert_info(e_malformed, m.malformed)
	elseif m.refused or known.invalid or m.invalid then
		local item = tree:add(f.invalid, m.refused or known.invalid or m.invalid)
		item:set_generated()
		item:add_proto_expert_info(e_invalid, m.refused or known.invalid or m.invalid)
	end

	-- The RPC message, if all of it is here.
	local whole = known.virtual and known.virtual:len() > 0 and known.virtual:tvb("RPC message")

	if known.whole then
		show_whole(tree, known, whole)
	end
	if m.proc == MSG and bytes:len() > 0 and not m.malformed and not m.invalid and #m.reads == 0 then
		local written = false

		for _, chunk in ipairs(m.direction == REPLY and m.writes or {}) do
			for _, segment in ipairs(chunk) do
				written = written or segment.length > 0
			end
		end
		whole = not written and tvb(stream_at):tvb()
	end
	if whole then
		rpc = rpc or Dissector.get("rpc")
		-- What it finds malformed it has shown already.
		pcall(rpc.call, rpc, whole, pinfo, root)
	end
end

-- Does a Send that begins so seem to be of version 2?
local function plausible(tvb, stream)
	if tvb:len() < LEAST or tvb(4, 4):uint() ~= 2 then
		return false
	end
	return tvb(12, 4):uint() <= 9 or stream.known
end

-- What is known of a packet: whether it came before.
local function arrival(pinfo, stream, psn)
	local again = stream.psn and (stream.psn - psn) % 0x1000000
	again = again and again > 0 and again < 0x800000

	if not again then
		stream.psn = (psn + 1) % 0x1000000
	end
	packets[pinfo.number] = { again = again, wanted = false }
	return packets[pinfo.number]
end

-- The packet that is being dissected, if it was shown to infiniband().
local shown

-- A packet of a Send, behind @bth. Those of several packets are kept until the last comes.
local function packet_of_send(tvb, pinfo, root, bth)
	local opcode = bth.opcode

	if not (FIRST[opcode] or MIDDLE[opcode] or LAST[opcode] or ONLY[opcode]) then
		return false
	end
	shown = pinfo.number
	if bth.padding >= tvb:len() then
		return false
	end
	-- What a packet is filled up with is no part of the message.
	if bth.padding > 0 then
		tvb = tvb(0, tvb:len() - bth.padding):tvb()
	end
	local stream = stream_of(pinfo, bth)
	local packet = packets[pinfo.number]

	if not packet then
		packet = arrival(pinfo, stream, bth.psn)
		local again = packet.again

		if FIRST[opcode] then
			stream.parts = nil
			if plausible(tvb, stream) then
				packet.wanted = true
				stream.parts = not again and tvb:bytes() or nil
			end
		elseif ONLY[opcode] then
			packet.wanted = plausible(tvb, stream)
		elseif stream.parts and not again then
			packet.wanted = true
			stream.parts:append(tvb:bytes())
			if LAST[opcode] then
				packet.whole = stream.parts
				stream.parts = nil
			end
		end
	end
	if not packet.wanted then
		return false
	end
	if packet.whole then
		dissect(packet.whole:tvb("Send of several packets"), pinfo, root, stream, packet.again)
	elseif ONLY[opcode] then
		dissect(tvb, pinfo, root, stream, packet.again)
	else
		root:add(proto, tvb()):add(f.fragment_length, tvb(), tvb:len())
		pinfo.cols.protocol = "RPCoRDMA2"
		pinfo.cols.info = "part of a Send"
	end
	return true
end

local function infiniband(tvb, pinfo, root)
	local bth = bth_of_fields()

	return bth and packet_of_send(tvb, pinfo, root, bth) or false
end

-- Over iWARP: Wireshark puts a Send together itself.
local function iwarp(tvb, pinfo, root)
	local opcode, stream = get_iwarp_opcode(), stream_of(pinfo)

	-- Send, with or without invalidation and solicited event.
	if not opcode or opcode.value < 3 or opcode.value > 6 or not plausible(tvb, stream) then
		return false
	end
	local message = get_iwarp_message()
	dissect(tvb, pinfo, root, stream, false, "/" .. tostring(message and message.value))
	return true
end

-- --- private data ---

-- Fields whose names are not the same in every version of Wireshark: those of these that there are.
local function fields_of(...)
	local found = {}

	for _, name in ipairs({ ... }) do
		local there, field = pcall(Field.new, name)
		if there then
			found[#found + 1] = field
		end
	end
	return found
end

local get_attribute = fields_of("infiniband.mad.attributeid")
local get_request = fields_of("infiniband.cm.req.localcommid", "infiniband.cm.req")
local get_answered = fields_of("infiniband.cm.rep.remotecommid")
local get_queue = fields_of("infiniband.cm.req.localqpn", "infiniband.cm.rep.localqpn")

local function first_value(fields)
	for _, field in ipairs(fields) do
		local found = field()
		if found then
			return found.value
		end
	end
end

-- Which queue pairs belong together, from a CM REQ and its REP: @attribute, @id of the one who asked, @qp of the sender.
local function connection(pinfo, attribute, id, qp)
	local from, to = tostring(pinfo.net_src), tostring(pinfo.net_dst)

	if attribute == 0x10 then
		requests[from .. "/" .. tostring(id)] = from .. "/" .. tostring(qp)
	elseif attribute == 0x13 then
		local theirs = requests[to .. "/" .. tostring(id)]
		local ours = from .. "/" .. tostring(qp)

		if theirs then
			pairs_of_queues[theirs], pairs_of_queues[ours] = ours, theirs
		end
	end
end

-- The same of a CM datagram: behind the DETH and the header of 24 bytes.
local function connection_of_bytes(tvb, pinfo)
	if tvb:len() < 8 + 24 + 36 or tvb(9, 1):uint() ~= 7 then
		return
	end
	local attribute, at = tvb(8 + 16, 2):uint(), 8 + 24

	connection(pinfo, attribute, tvb(at + (attribute == 0x13 and 4 or 0), 4):uint(),
		tvb(at + (attribute == 0x13 and 12 or 32), 3):uint())
end

local function private_data(tvb, pinfo, root)
	local attribute, qp = first_value(get_attribute), first_value(get_queue)

	if qp and not pinfo.visited then
		connection(pinfo, attribute, first_value(attribute == 0x13 and get_answered or get_request), qp)
	end
	for at = 0, tvb:len() - 8 do
		if tvb(at, 4):uint() == PRIVATE_IDENTIFIER and tvb(at + 4, 1):uint() == 1 then
			local tree = root:add(proto, tvb(at, math.min(16, tvb:len() - at)))

			tree:append_text(", private data")
			tree:add(f.private_version, tvb(at + 4, 1))
			tree:add(f.private_flags, tvb(at + 5, 1))
			tree:add(f.private_send, tvb(at + 6, 1), (tvb(at + 6, 1):uint() + 1) * 1024)
			tree:add(f.private_receive, tvb(at + 7, 1), (tvb(at + 7, 1):uint() + 1) * 1024)
			-- InfiniBand fills private data up with zeros.
			if tvb:len() >= at + 16 and tvb(at + 8, 4):uint() == MARK and tvb(at + 12, 1):uint() ~= 0 then
				tree:add(f.private_mark, tvb(at + 8, 4))
				tree:add(f.private_mark_version, tvb(at + 12, 1))
				tree:append_text(tvb(at + 12, 1):uint() == MARK_VERSION and ", version 2" or
					", a mark of another version")
			end
			return true
		end
	end
	return false
end

-- --- what others took, and what comes without fields ---

-- What Wireshark's own dissector took, without reading it: whichever matched last is asked first, and that one takes
-- RDMA2_NOMSG, RDMA2_ERROR and the last packet of a long Send whatever their version. So each Send that was not shown
-- to ours is looked at again when all others are done. And the first of two passes has no fields: there all that there
-- is to be found out is in the bytes of the frame.
local after = Proto("rpcordma2_after", "RPC over RDMA version 2 that others took")

function after.dissector(tvb, pinfo, root)
	local seen = shown == pinfo.number

	shown = nil
	if seen then
		return
	end
	local bth, at, last = bth_of_fields()

	if bth then
		local crc = get_crc()

		at, last = get_psn().offset + 3, crc and crc.offset or 0
	else
		bth, at, last = bth_of_frame(tvb)
	end
	-- What comes with immediate data or with an R_key to invalidate.
	if bth and WITH_WORD[bth.opcode] then
		at = at + 4
	end
	if not bth or last <= at or last > tvb:len() then
		return
	end
	if bth.opcode == DATAGRAM and not pinfo.visited then
		connection_of_bytes(tvb(at, last - at):tvb(), pinfo)
	end
	packet_of_send(tvb(at, last - at):tvb(), pinfo, root, bth)
	shown = nil
end
register_postdissector(after)

proto:register_heuristic("infiniband.payload", infiniband)
proto:register_heuristic("iwarp_ddp_rdmap", iwarp)
proto:register_heuristic("infiniband.mad.cm.private", private_data)
