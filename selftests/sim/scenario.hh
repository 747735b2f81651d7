// SPDX-License-Identifier: GPL-2.0-only
/* What happens in a run: drawn from the seed. */
#pragma once

#include "module/base/types.hh"

namespace sim {

/** The body of run_world(). */
void scenario();
/** Calls that the run's clients have made. */
rpcordma::u32 calls_made();
/** One part of it: peers that keep to none of version 2's rules. */
void strange_versions();
/** One with clients whose calls have several Read chunks. */
void strange_chunks();
/** One with clients that say anything of where results may go; as that. */
void strange_directions();

} // namespace sim
