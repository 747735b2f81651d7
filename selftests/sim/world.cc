// SPDX-License-Identifier: GPL-2.0-only
/* The clock, the scheduler, locks, work, faults, and the verdict. See world.hh. */
#include "selftests/sim/world.hh"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <vector>

#include <unistd.h>

#include "selftests/sim/fiber.hh"

namespace sim {

/* A run that takes so long has gone in circles. */
u64 most_steps = 4000000;
static constexpr u64 kMostTime = 4 * 3600 * kSecond;

struct Fiber {
	Fiber(std::string n, u64 identity, Context c, std::function<void()> body)
		: name(std::move(n)),
		  context(c),
		  strand([this, body = std::move(body)] {
			  body();
			  end();
		  })
	{
		actor.begin(identity, name.c_str());
	}
	[[noreturn]] void end();
	void wake();
	/* It waits for the processor. */
	void line_up();
	void leave_queue()
	{
		if (!queue)
			return;
		auto &all = queue->waiting_;
		all.erase(std::find(all.begin(), all.end(), this));
		queue = nullptr;
	}

	std::string name;
	Actor actor;
	Context context;
	Strand strand;
	std::vector<std::pair<LockClass, bool>> held; /* and whether it spins */
	u32 spins = 0;
	u32 priority = 0;
	u64 since = 0; /* it waits for the processor: who does so longer has a smaller one */
	const char *why = nullptr; /* it waits */
	WaitQueue *queue = nullptr;
	u64 timer = 0; /* its number; 0: none */
	u64 timer_at = 0;
	bool timed_out = false;
	bool finished = false;
};

namespace {

const char *const kLockNames[] = {"client lock",  "server lock", "sinks",	   "failures",
				  "posts",	  "fence mutex", "transport_lock", "queue_lock",
				  "reserve_lock", "accept_lock", "sv_lock"};
constexpr u32 kLocks = u32(LockClass::count);
static_assert(sizeof(kLockNames) / sizeof(*kLockNames) == kLocks);

struct Timer {
	Fiber *fiber; /* or else: */
	std::function<void()> start;
};

struct World {
	u64 seed = 0, now = 0, steps = 0, history = 0, timers_made = 0, lined_up = 0;
	u32 switch_odds = 4;
	bool by_priority = false;
	Strand scheduler;
	Fiber *current = nullptr;
	std::vector<Fiber *> runnable;
	std::vector<Fiber *> all;
	std::map<std::pair<u64, u64>, Timer> timers;
	bool before[kLocks][kLocks] = {}; /* lock order, as it was seen */
};

World *world;

u64 add_timer(u64 delay, Timer timer)
{
	const u64 number = ++world->timers_made;

	world->timers.emplace(std::make_pair(world->now + delay, number), std::move(timer));
	return number;
}

/* Off the processor until somebody makes it runnable. */
void suspend()
{
	Fiber *self = world->current;

	self->strand.switch_to(world->scheduler);
}

u32 eldest()
{
	const auto &from = world->runnable;
	u32 index = 0;

	for (u32 i = 1; i < from.size(); i++)
		if (from[i]->since < from[index]->since)
			index = i;
	return index;
}

Fiber *pick()
{
	auto &from = world->runnable;
	u32 index = 0;

	if (world->by_priority) {
		for (u32 i = 1; i < from.size(); i++)
			if (from[i]->priority > from[index]->priority ||
			    (from[i]->priority == from[index]->priority &&
			     from[i]->since < from[index]->since))
				index = i;
		chance.set_actor(&from[index]->actor);
		if (chance.one_in(16))
			from[index]->priority = u32(chance.next());
	} else if (from.size() > 1) {
		index = chance.turn(u32(from.size()), world->now, eldest);
	}
	Fiber *fiber = from[index];
	from[index] = from.back();
	from.pop_back();
	return fiber;
}

bool reaches(u32 from, u32 to)
{
	if (world->before[from][to])
		return true;
	for (u32 i = 0; i < kLocks; i++)
		if (world->before[from][i] && i != from && reaches(i, to))
			return true;
	return false;
}

void note_acquired(LockClass which, bool spins)
{
	Fiber *self = world->current;
	const u32 to = u32(which);

	for (auto [held, spun] : self->held) {
		const u32 from = u32(held);

		REQUIRE(from != to, "two locks of the class '%s' at once", kLockNames[to]);
		if (world->before[from][to])
			continue;
		REQUIRE(!reaches(to, from),
			"lock order: '%s' with '%s' held, and the other way round before",
			kLockNames[to], kLockNames[from]);
		world->before[from][to] = true;
	}
	self->held.emplace_back(which, spins);
	self->spins += spins;
}

void note_released(LockClass which, bool spins)
{
	Fiber *self = world->current;
	auto it = std::find(self->held.rbegin(), self->held.rend(), std::make_pair(which, spins));

	self->held.erase(std::next(it).base());
	self->spins -= spins;
}

} // namespace

Faults faults;
bool tracing;

static void exit_quietly()
{
	_exit(1);
}

void (*end_of_failed_run)() = exit_quietly;

/* --- verdict and trace --- */

void trace(const char *format, ...)
{
	va_list arguments;

	std::printf("%11.6f %-22s ", double(world->now) / kSecond,
		    world->current ? world->current->name.c_str() : "-");
	va_start(arguments, format);
	std::vprintf(format, arguments);
	va_end(arguments);
	std::putchar('\n');
}

static void list_waiting()
{
	for (const Fiber *fiber : world->all)
		if (fiber != world->current)
			std::printf("\twaits: %s: %s\n", fiber->name.c_str(),
				    fiber->why ? fiber->why : "for the processor");
}

void fail(const char *format, ...)
{
	va_list arguments;

	std::printf("\nseed %llu failed at %.6f s in '%s':\n\t", (unsigned long long)world->seed,
		    double(world->now) / kSecond,
		    world->current ? world->current->name.c_str() : "-");
	va_start(arguments, format);
	std::vprintf(format, arguments);
	va_end(arguments);
	std::putchar('\n');
	list_waiting();
	std::fflush(stdout);
	end_of_failed_run();
	std::abort();
}

/* --- fibers and time --- */

void Fiber::wake()
{
	leave_queue();
	if (timer) {
		world->timers.erase({timer_at, timer});
		timer = 0;
	}
	why = nullptr;
	line_up();
}

void Fiber::line_up()
{
	since = ++world->lined_up;
	world->runnable.push_back(this);
}

void Fiber::end()
{
	REQUIRE(held.empty(), "a context ends with '%s' held", kLockNames[u32(held.back().first)]);
	finished = true;
	strand.finish(world->scheduler);
}

WaitQueue::~WaitQueue()
{
	REQUIRE(waiting_.empty(), "what somebody waits for is destroyed: %s waits",
		waiting_.front()->name.c_str());
}

void WaitQueue::wake_one()
{
	if (!waiting_.empty())
		waiting_.front()->wake();
}

void WaitQueue::wake_all()
{
	while (!waiting_.empty())
		waiting_.front()->wake();
}

u64 now()
{
	return world->now;
}

u64 steps()
{
	return world->steps;
}

u64 history()
{
	return world->history;
}

Context current_context()
{
	return world->current->context;
}

const char *current_name()
{
	return world->current->name.c_str();
}

static void spawn_as(u64 identity, std::string name, Context context, std::function<void()> body)
{
	Fiber *fiber = new Fiber(std::move(name), identity, context, std::move(body));

	if (world->by_priority || !chance.frugal()) {
		chance.set_actor(&fiber->actor);
		fiber->priority = u32(chance.next());
		chance.set_actor(world->current ? &world->current->actor : nullptr);
	}
	world->all.push_back(fiber);
	fiber->line_up();
}

void spawn(std::string name, Context context, std::function<void()> body)
{
	const u64 identity = chance.child(name);

	spawn_as(identity, std::move(name), context, std::move(body));
}

void spawn_after(u64 delay, std::string name, Context context, std::function<void()> body)
{
	const u64 identity = chance.child(name);

	add_timer(delay, {nullptr, [=] { spawn_as(identity, name, context, body); }});
}

void port_call()
{
	Fiber *self = world->current;

	if (self && chance.interrupts(world->switch_odds))
		give_way();
}

void give_way()
{
	Fiber *self = world ? world->current : nullptr;

	if (!self)
		return;
	self->line_up();
	suspend();
}

static bool wait_in(WaitQueue *queue, const char *why, u64 limit)
{
	Fiber *self = world->current;

	self->why = why;
	self->timed_out = false;
	self->queue = queue;
	if (limit != kForever) {
		self->timer = add_timer(limit, {self, nullptr});
		self->timer_at = world->now + limit;
	}
	suspend();
	return !self->timed_out;
}

bool wait(WaitQueue &queue, const char *why, u64 limit)
{
	may_sleep(why);
	queue.waiting_.push_back(world->current);
	return wait_in(&queue, why, limit);
}

void sleep_for(u64 delay, const char *why)
{
	may_sleep(why);
	(void)wait_in(nullptr, why, delay);
}

void may_sleep(const char *what)
{
	const Fiber *self = world->current;

	if (self->spins)
		for (auto [which, spins] : self->held)
			REQUIRE(!spins, "%s: would sleep, with '%s' held", what,
				kLockNames[u32(which)]);
	REQUIRE(self->context == Context::process, "%s: would sleep, in a completion or handler",
		what);
}

void run_world(u64 seed, std::function<void()> body)
{
	World here;

	world = &here;
	here.seed = seed;
	chance.seed(seed);
	static const u32 odds[] = {2, 4, 8, 32};
	here.switch_odds = chance.any_of(odds);
	here.by_priority = chance.one_in(3);
	draw_preemption();
	faults = {};
	spawn("main", Context::process, std::move(body));
	for (;;) {
		if (here.runnable.empty()) {
			if (here.timers.empty())
				break;
			auto first = here.timers.begin();
			here.now = std::max(here.now, first->first.first);
			REQUIRE(here.now < kMostTime, "there is no end to it");
			Timer timer = std::move(first->second);
			here.timers.erase(first);
			if (timer.fiber) {
				timer.fiber->timer = 0;
				timer.fiber->timed_out = true;
				timer.fiber->wake();
			} else {
				timer.start();
			}
			continue;
		}
		Fiber *fiber = pick();
		here.current = fiber;
		chance.set_actor(&fiber->actor);
		here.history = here.history * 0x100000001b3 + fiber->name.size() + here.now +
			       here.runnable.size();
		REQUIRE(++here.steps < most_steps, "there is no end to it: %llu steps",
			(unsigned long long)here.steps);
		here.scheduler.switch_to(fiber->strand);
		here.current = nullptr;
		chance.set_actor(nullptr);
		if (fiber->finished) {
			here.all.erase(std::find(here.all.begin(), here.all.end(), fiber));
			delete fiber;
		}
	}
	REQUIRE(here.all.empty(), "deadlock: nothing will ever happen, and %zu still wait",
		here.all.size());
	world = nullptr;
}

/* --- locks --- */

SpinLock::~SpinLock()
{
	REQUIRE(!owner_, "'%s' is destroyed while it is held", kLockNames[u32(class_)]);
}

void SpinLock::acquire()
{
	port_call();
	Fiber *self = world->current;
	REQUIRE(owner_ != self, "'%s' is taken by who has it", kLockNames[u32(class_)]);
	while (owner_) {
		spinning_.waiting_.push_back(self);
		(void)wait_in(&spinning_, kLockNames[u32(class_)], kForever);
	}
	owner_ = self;
	note_acquired(class_, true);
}

void SpinLock::release()
{
	REQUIRE(owner_ == world->current, "'%s' is released by who does not have it",
		kLockNames[u32(class_)]);
	owner_ = nullptr;
	note_released(class_, true);
	spinning_.wake_one();
	port_call();
}

bool SpinLock::held_by_me() const
{
	return owner_ == world->current;
}

Mutex::~Mutex()
{
	REQUIRE(!owner_, "'%s' is destroyed while it is held", kLockNames[u32(class_)]);
}

void Mutex::acquire()
{
	may_sleep(kLockNames[u32(class_)]);
	port_call();
	REQUIRE(owner_ != world->current, "'%s' is taken by who has it", kLockNames[u32(class_)]);
	while (owner_)
		(void)wait(waiting_, kLockNames[u32(class_)]);
	owner_ = world->current;
	note_acquired(class_, false);
}

void Mutex::release()
{
	REQUIRE(owner_ == world->current, "'%s' is released by who does not have it",
		kLockNames[u32(class_)]);
	owner_ = nullptr;
	note_released(class_, false);
	waiting_.wake_one();
	port_call();
}

/* --- work --- */

struct Work::State {
	const char *name;
	std::function<void()> function;
	bool queued = false, running = false;
	u64 ticket = 0; /* of the latest queueing: a cancelled one is not run */
	u32 cancellers = 0;
	WaitQueue idle;
};

Work::Work(const char *name, std::function<void()> function) : state_(std::make_shared<State>())
{
	state_->name = name;
	state_->function = std::move(function);
}

Work::~Work()
{
	REQUIRE(!state_->queued && !state_->running, "work '%s' goes while it is queued",
		state_->name);
}

bool Work::queue(u64 delay)
{
	if (state_->queued || state_->cancellers)
		return false;
	state_->queued = true;
	const u64 ticket = ++state_->ticket;
	spawn_after(delay, state_->name, Context::process, [state = state_, ticket] {
		while (state->running)
			(void)wait(state->idle, "its own last run");
		if (!state->queued || state->ticket != ticket)
			return;
		state->queued = false;
		state->running = true;
		state->function();
		state->running = false;
		state->idle.wake_all();
	});
	return true;
}

void Work::queue_anew(u64 delay)
{
	state_->queued = false;
	(void)queue(delay);
}

void Work::cancel_sync()
{
	may_sleep("cancel work");
	state_->queued = false;
	state_->cancellers++;
	state_->idle.wake_all();
	while (state_->running)
		(void)wait(state_->idle, "work to be cancelled");
	state_->cancellers--;
}

void Work::flush()
{
	may_sleep("flush work");
	while (state_->running || state_->queued)
		(void)wait(state_->idle, "work to be flushed");
}

} // namespace sim
