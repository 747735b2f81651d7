// SPDX-License-Identifier: GPL-2.0-only
/*
 * The one C++ translation unit of the module: every source of module/ and xdr/, so that the codecs are inlined
 * into the hot path, and no template is emitted twice (which the module linker could not merge).
 */

#include "module/runtime.cc"

#include "xdr/lists.cc"
#include "xdr/private_data.cc"
#include "xdr/properties.cc"
#include "xdr/v1.cc"
#include "xdr/v2.cc"

#include "module/chunk/answer.cc"
#include "module/chunk/arrival.cc"
#include "module/chunk/reduce.cc"
#include "module/chunk/reply.cc"
#include "module/chunk/segments.cc"

#include "module/rdma/message_pages.cc"
#include "module/rdma/receive_queue.cc"

#include "module/client/aside.cc"
#include "module/client/backchannel.cc"
#include "module/client/close.cc"
#include "module/client/connect.cc"
#include "module/client/entry.cc"
#include "module/client/fence.cc"
#include "module/client/negotiate.cc"
#include "module/client/registration.cc"
#include "module/client/reply.cc"
#include "module/client/send.cc"
#include "module/client/slots.cc"
#include "module/client/transmit.cc"

#include "module/server/backward.cc"
#include "module/server/call.cc"
#include "module/server/close.cc"
#include "module/server/connection.cc"
#include "module/server/deliver.cc"
#include "module/server/eager.cc"
#include "module/server/entry.cc"
#include "module/server/failures.cc"
#include "module/server/growth.cc"
#include "module/server/judge.cc"
#include "module/server/negotiate.cc"
#include "module/server/owners.cc"
#include "module/server/pool.cc"
#include "module/server/queue.cc"
#include "module/server/read.cc"
#include "module/server/receive.cc"
#include "module/server/receives.cc"
#include "module/server/refusal.cc"
#include "module/server/reply.cc"
#include "module/server/room.cc"
#include "module/server/send.cc"
#include "module/server/transfer.cc"
#include "module/server/writes.cc"
