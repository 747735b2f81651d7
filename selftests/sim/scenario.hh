// SPDX-License-Identifier: GPL-2.0-only
/* What happens in a run: drawn from the seed. */
#pragma once

namespace sim {

/** The body of run_world(). */
void scenario();

} // namespace sim
