// SPDX-License-Identifier: GPL-2.0-only
/* What the runs have in common in which a server meets strangers (stranger.hh): devices, faults, and the way to the end. */
#pragma once

#include <memory>
#include <vector>

#include "selftests/sim/consumer.hh"
#include "selftests/sim/stranger.hh"

namespace sim {

/** Private data of a client that takes and sends messages of kLeast bytes, and speaks version 2. */
inline const std::vector<u8> kSpeaksVersion2 = {0xf6, 0xab, 0x0e, 0x18, 1, 0, 3, 3,
						0x72, 0x32, 0x64, 0x33, 1, 0, 0, 0};

class ServerPlay {
protected:
	/** A device for @host, with four of all that there are several of; what a run wants otherwise it says then. */
	static rpcordma_device &add_device_(Host &host)
	{
		host.devices.push_back(std::make_unique<Device>("device"));
		rpcordma_device &limits = host.devices[0]->limits;
		limits.fast_registration = true;
		limits.max_fast_reg_pages = 256;
		limits.max_send_sge = limits.max_sge_rd = limits.max_recv_sge = 4;
		limits.max_qp_rd_atom = limits.max_qp_init_rd_atom = 4;
		limits.page_size = limits.mr_page_size = kPageSize;
		return limits;
	}

	/** The devices are there: strangers may come, and what can fail does. */
	void begin_()
	{
		rpcordma_server_tunables.rnr_retry_count = 7;
		fabric_.strangers = true;
		faults.slowness = chance.one_in(2) ? 20 : 0;
		faults.patience = chance.between(1, 20);
		faults.active = true;
	}

	/** Serve payloads of up to @most bytes while @meet() goes on, and end. */
	template <typename Meet> void serve_(u32 most, Meet &&meet)
	{
		REQUIRE(module_.start(), "the server does not start");
		Service service(files_, 2, most);
		service.listen();
		meet();
		service.stop();
		module_.end();
		sleep_for(10 * kSecond, "the fabric to come to rest");
	}

	Memory memory_;
	Fabric fabric_;
	ServerModule module_;
	FileService files_;
};

} // namespace sim
