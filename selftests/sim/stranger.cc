// SPDX-License-Identifier: GPL-2.0-only
/* Peers that keep no rule. See stranger.hh. */
#include "selftests/sim/stranger.hh"

namespace sim {

static constexpr rpcordma_queue_sizes kQueues = {16, 16, 1, 1};
static constexpr u32 kPatience = 10000; /* ms */

Stranger::~Stranger()
{
	REQUIRE(!endpoint_, "a stranger goes without leaving");
}

int Stranger::connect(const std::vector<u8> &private_data)
{
	auto *ep = new rpcordma_endpoint;

	REQUIRE(!endpoint_, "a stranger connects twice");
	ep->peer = &peer_;
	ep->id = std::make_shared<CmId>(fabric->client);
	ep->id->endpoint = ep;
	ep->stranger = this;
	endpoint_ = ep;
	rpcordma_connect_parameters parameters = {};
	parameters.private_data = private_data.data();
	parameters.private_data_length = u8(private_data.size());
	parameters.responder_resources = parameters.initiator_depth = 16;
	int rc = rpcordma_endpoint_resolve(ep, kPatience);
	if (!rc)
		rc = rpcordma_endpoint_create_qp(ep, &kQueues);
	if (!rc)
		rc = rpcordma_endpoint_connect(ep, &parameters, kPatience);
	return rc;
}

bool Stranger::accept(const std::shared_ptr<CmId> &id, const std::vector<u8> &private_data)
{
	endpoint_ = adopt_endpoint(id, &peer_, nullptr, {});
	if (!endpoint_)
		return false;
	endpoint_->stranger = this;
	accepting_ = true;
	spawn("stranger accepts", Context::process, [this, private_data] {
		rpcordma_connect_parameters parameters = {};

		parameters.private_data = private_data.data();
		parameters.private_data_length = u8(private_data.size());
		if (!rpcordma_endpoint_create_qp(endpoint_, &kQueues))
			(void)rpcordma_endpoint_accept(endpoint_, &parameters);
		accepting_ = false;
		accepted_.wake_all();
	});
	return true;
}

void Stranger::leave()
{
	while (accepting_)
		(void)wait(accepted_, "a stranger that accepts");
	if (!endpoint_)
		return;
	rpcordma_endpoint *ep = endpoint_;
	endpoint_ = nullptr;
	rpcordma_endpoint_disconnect(ep);
	rpcordma_endpoint_destroy(ep);
}

std::shared_ptr<Qp> Stranger::other() const
{
	return endpoint_ && endpoint_->qp && endpoint_->qp->state != Qp::State::error ?
		       endpoint_->qp->peer.lock() :
		       nullptr;
}

u32 Stranger::connection() const
{
	return endpoint_ && endpoint_->qp && endpoint_->qp->conversation ?
		       endpoint_->qp->conversation->number :
		       0;
}

bool Stranger::say(const std::vector<u8> &message, u32 invalidate)
{
	const auto to = other();

	if (!to)
		return false;
	if (to->strange_message(message, invalidate))
		return true;
	fall_silent();
	return false;
}

bool Stranger::reach(u64 address, u32 key, u32 length, u8 *buffer, Access access)
{
	const auto to = other();

	if (!to)
		return false;
	if (to->strange_access(address, key, length, buffer, access))
		return true;
	fall_silent();
	return false;
}

void Stranger::fall_silent()
{
	if (endpoint_ && endpoint_->qp)
		endpoint_->qp->set_error();
}

} // namespace sim
