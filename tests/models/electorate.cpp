/* Which base is the swarm's: a model of electors and binding votes, and a search of all its states.

   THE RULE. Nodes that hold the same base form a group and run a session; its result is the next base. A base is
   strong or weak. The anchor of a base is the newest strong base among itself and those that it descends from.
   The electors of an anchor are the nodes whose updates it holds.
     - Voters (V) of a group are its electors that have no open vote and did not resign. Resigned electors are
       excused (R): no vote of theirs is needed. A group is strong if its voters are a quorum of the other
       electors: 2|V| > |E \ R| + f, where f is how many liars the swarm tolerates. With f = 0, exactly half
       with the first elector are a quorum too.
     - A strong session is completed by t releases, if the voters among them are a quorum again.
     - A voter's release is its vote. The node stores it first; it stays open until the node holds a higher
       anchor, or the session is dead: too many are out of it for a result, even if f of these are in it.
       A release of any other member binds nobody here. In the product it does, so that who is out and never
       released can be told from what it announces: that only takes steps away from the adversary.
     - A node resigns only without an open vote and in no session, for as long as it stays on that anchor.
     - A node that is in no session takes any base of a higher rank: anchor, generation, members, digest.

   RUNS OF STEPS (RUNS=1). Every sum holds the updates of all members of its group, and a strong group none
   of whose members has an open vote, or resigned, may take several steps. Each step is a session:
     - A member that stored a step's base while it was in that step goes on in the run. It enters the next
       step, which builds on that base, once: who leaves the run, even between two steps, is out of it.
     - The members' READYs stand for all steps: all of them are voters in each step after the first. The
       electors of such a step are the members, and nobody is excused.
     - Nobody releases in a step before all members entered it: their updates are in its sum.
     - A node that leaves a step keeps the vote that it cast in it, as in any session.
     - The disk (POWER=1): a vote is on it before the release leaves, and likewise that a node left a session,
       resigned, or is free of a vote. A base, and with it the end of the votes that it decides, may be stored
       without being synced: a power failure takes back all that was stored since the last sync, or the later
       part of it. A vote is synced with the base on which it was cast.
   A run has no longest length: the adversary may end it after any step.

   THE ADVERSARY decides all that a network, a clock, an owner or a crash could decide:
     - which nodes form a group, and when, and that a group is weak (patience is over whenever it likes);
     - who releases, and who leaves a session before or after that (a deadline, a crash: what a node keeps on
       disk stays, what its session knew is gone), or its run between two steps;
     - where the power fails;
     - who receives which releases, how late, and who takes whose base;
     - who learns that a session is dead, and who resigns, and of which resignations a group has heard;
     - which member drops out of the sum: it is no elector of the base that comes of that;
     - which of two bases that tie has the smaller digest, each time anew.
   Nodes follow the rule and tell no lies; disks keep what they hold. The amnesty is not modelled.

   LIARS (LIARS=k) are the first k nodes: the first elector, who breaks ties, is one of them. A liar holds
   every base, and nothing binds it. What it does is up to the adversary:
     - It is a member of any number of groups, also of two at once, each on any base that exists. A coordinator
       that closes two groups at once is no more than that: two groups that share liars alone, as an honest
       member joins the one that it sees.
     - In each group it counts as a voter, as bound, or as resigned, whatever it told others.
     - It says that it is out of every session, and releases in it whenever that makes the result.

   WHAT MUST HOLD in every state (of honest nodes):
     - no node that stored a strong base ever moves to a base that does not descend from it;
     - of each anchor, one strong successor at most is completed (has the releases that make a result);
     - there is a way on: once all are in no session and have told each other all, none has an open vote.
       So all electors of the highest base that did not resign are voters of a strong group. With f > 0 there
       need be none: a vote stays open where f lies could hide a result. Such states are counted. With liars
       this is not looked at.

   HOW STATES ARE SAVED. Each of these only leaves out what could add nothing to what the adversary can do:
     - A release in a weak session binds nobody and nobody need stay in it. So a weak group, once formed, has
       all its releases, and its members go on. Nobody drops out of it: that is a smaller group.
     - Any node that is in no other session may store the base of a completed session: it received the
       releases, or somebody who stored it handed it on.
     - A release to a session that is completed already would only bind one more.
     - Who was in a session and released does not matter any more once it is completed, nor once it is void:
       everybody has left it, it has no result (not even if all liars release), and everybody sees that.
     - A liar's release is seen when it makes the result, and not before. All liars release together.
     - In the next step of a run, liars are there from the beginning.
     - Who is no elector has nothing to resign from.
     - After the last group nobody votes again: then open votes and resignations are forgotten, and what a
       power failure would take back.
   A state that was seen is known by 64 bits of its hash: of searches of 10^8 states, one in 4000 confuses two.

   WHAT CHOOSES A SEARCH (-D...):
     N, S         nodes, and sessions in a run
     ELECTORS     the electors of the first base, as bits (default: all nodes); the others are newcomers
     RESIGN=0     nobody resigns; DROP=0: nobody drops out of a sum
     RUNS=1       groups take runs of steps (and nobody drops out); S counts each step as a session
     POWER=0      in runs, no power fails
     F            f of the rule (default: 0)
     LIARS, LIES  how many nodes lie, and which lies they tell (default: all), as bits: see enum Lie
     LEAST        members of the smallest group (default: 2)
     LIMIT=k      stop after k states
     TRACE        breadth first, and print the steps to what is violated
     FAULTS       plant the fault below whose number is the program's argument */

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <type_traits>
#include <vector>

#ifndef N
#define N 3
#endif
#ifndef S
#define S 2
#endif
#ifndef ELECTORS
#define ELECTORS ((1 << N) - 1)
#endif
#ifndef RESIGN
#define RESIGN 1
#endif
#ifndef RUNS
#define RUNS 0
#endif
#ifndef DROP
#define DROP (!RUNS)
#endif
#ifndef POWER
#define POWER RUNS
#endif
#ifndef F
#define F 0
#endif
#ifndef LIARS
#define LIARS 0
#endif
#ifndef LIES
#define LIES 15
#endif
#ifndef LEAST
#define LEAST 2
#endif
#ifndef LIMIT
#define LIMIT 0
#endif
#ifdef TRACE
constexpr bool tracing = true;
#else
constexpr bool tracing = false;
#endif

enum Fault {
    NONE,
    NO_DOUBT,          // a release binds nobody
    FORGETS,           // a node that starts again has forgotten its open votes
    ANY_T,             // t releases complete a strong session, whoever gave them
    BOTH_HALVES,       // either half of the electors is a quorum
    WEAK_ELECTS,       // a weak group makes a strong base, and its members are the electors
    TODAY_RANK,        // bases are ranked without their anchor
    FORGIVES,          // an open vote is dropped after a while, dead or not
    RESIGNS_IN_DOUBT,  // a node may resign with a vote open
    RESIGNS_MIDWAY,    // a node may resign in a session, and release afterwards
    UNBOUND_PROVES,    // a member that released but is not bound counts as out, since it lists no vote
    HIGHER_PROVES,     // a member that holds a higher anchor counts as out, since it lists no vote any more
    NEVER_CLOSES,      // a vote stays open though its node holds a higher anchor
    // in runs
    GOES_AHEAD,        // a member enters the next step without the base of this one, and its vote is closed
    GOES_AHEAD_BOUND,  // the same, but it keeps its vote (this one does no harm)
    JOINS_BOUND,       // a group takes a run though members have open votes, and these are voters
    LATER_UNBOUND,     // a release in a later step binds nobody: the run has begun with free votes
    VOTES_UNSYNCED,    // a release leaves before its vote is on disk
    CLOSES_FIRST,      // a vote is closed on disk before the base is there
    COMES_BACK,        // a node that left the run enters its next step, if it holds the base
    FIRST_ELECTORS,    // all steps count with the electors of the run's first one
    RESIGNS_BETWEEN,   // a node may resign between two steps, and goes on in the run
    EARLIER_PROVES,    // what a member said in an earlier step shows that it is out of this one
    // with liars
    BELIEVES_ALL,  // who says that it is out of a session is out: it is dead without regard to f
    TIE_STAYS,     // with f > 0 too, exactly half with the first elector are a quorum
    AT_LEAST,      // a quorum is 2|V| >= |E \ R| + f: for f = 1, more than half
};
#ifdef FAULTS
Fault planted = NONE;
#else
constexpr Fault planted = NONE;
#endif

/* ---- what a state is ---- */

using Index = std::uint8_t;  // of a node, a session or a base
using Set = std::uint8_t;    // of nodes, sessions or bases: bit i is the one with index i

constexpr Index NO_SESSION = 255;
constexpr Index FIRST_BASE = 0;  // base m + 1 is the result of session m
constexpr Set ALL = (1 << N) - 1;
constexpr Set LYING = (1 << LIARS) - 1;

static_assert(N <= 8 && S <= 7, "a set has eight bits");
static_assert(LIARS <= N, "liars are nodes");

/* What a liar says and does of which an honest node says and does the opposite. */
enum Lie {
    VOTES_AGAIN = 1,  // it votes in a group though its vote in an earlier one on the anchor may count
    AT_ONCE = 2,      // it is in two groups at once
    SAYS_OUT = 4,     // it says that it is out of a session, and releases in it
    RESIGNS_TOO = 8,  // it is resigned in one group, and votes in another. (Only with RESIGN=1)
};
constexpr int ALL_LIES = VOTES_AGAIN | AT_ONCE | SAYS_OUT | RESIGNS_TOO;
bool lies(Lie lie) { return LIES & lie; }

struct Node {
    Index base;
    Index session;    // that it is in
    Index after;      // between two steps: the session of the last one
    Set open;         // sessions: the votes that bind it
    Set resigned;     // anchors: where it votes for nobody. An announcement of that can be shown for ever
    Index kept_base;  // what a power failure leaves
    Set kept_open;
};

enum Stage : std::uint8_t { RUNNING, COMPLETED, VOID };

struct Session {
    Stage stage;
    Index parent;  // the base that it builds on
    Set members;
    Set included;  // members whose updates the sum holds
    Set voters;    // V: members whose votes count
    Set excused;   // R: resigned electors, of whom no vote is needed
    Set released;
    std::uint8_t weak;
    std::uint8_t runs;   // its members may go on with another step
    std::uint8_t later;  // it is a later step of a run
    Set entered;         // members whose updates are there
    Index next;          // 1 + the session of the next step; 0: none has begun
    Index first;         // (where that is planted) the base of the run's first step
};

struct State {
    Index begun;  // how many sessions there were
    Node nodes[N];
    Session sessions[S];
};
static_assert(std::has_unique_object_representations_v<State>, "equal states have equal bytes");

int size(Set set) { return __builtin_popcount(set); }
bool has(Set set, int index) { return set >> index & 1; }
Set only(int index) { return 1 << index; }

/* ---- bases ---- */

const Session& maker(const State& x, Index base) { return x.sessions[base - 1]; }
bool is_strong(const State& x, Index base) { return base == FIRST_BASE || !maker(x, base).weak; }

int generation(const State& x, Index base) {
    return base == FIRST_BASE ? 0 : 1 + generation(x, maker(x, base).parent);
}

Index anchor(const State& x, Index base) {
    return is_strong(x, base) ? base : anchor(x, maker(x, base).parent);
}

Set electors(const State& x, Index base) {
    Index strong = anchor(x, base);
    return strong == FIRST_BASE ? ELECTORS : maker(x, strong).included;
}

bool descends(const State& x, Index base, Index from) {
    return base == from || (base != FIRST_BASE && descends(x, maker(x, base).parent, from));
}

/* Without the digest: of two bases that tie, either may be the higher. */
int rank(const State& x, Index base) {
    int by_anchor = planted == TODAY_RANK ? 0 : generation(x, anchor(x, base));
    int contributors = base == FIRST_BASE ? 0 : size(maker(x, base).included);
    return (by_anchor * 16 + generation(x, base)) * 16 + contributors;
}

/* ---- votes ---- */

bool is_quorum(Set voters, Set electors, Set excused) {
    int votes = size(voters & electors & ~excused), needed_of = size(electors & ~excused);
    Set first = electors & -electors;
    bool breaks_the_tie = planted == BOTH_HALVES || (voters & ~excused & first) != 0;
    if (2 * votes + (planted == AT_LEAST) > needed_of + F) return true;
    return (F == 0 || planted == TIE_STAYS) && 2 * votes == needed_of && votes > 0 && breaks_the_tie;
}

/* t: one of three members or more may fall silent. (Three are the smallest group in which that matters.) */
int threshold(Set members) { return size(members) - (size(members) >= 3); }

/* Whether a session has a result if these members release. */
bool suffice(const State& x, const Session& session, Set released) {
    if (size(released) < threshold(session.members)) return false;
    if (session.weak || planted == ANY_T) return true;
    Index base = planted == FIRST_ELECTORS && session.later ? session.first : session.parent;
    return is_quorum(released & session.voters, electors(x, base), session.excused);
}

bool is_completed(const State& x, int m) { return x.sessions[m].stage == COMPLETED; }

/* Whether member i will never release in session m: it is out of it, and has not. Here each node knows that at
   once. From announcements it can know it of no others than voters that are still on the session's anchor:
   their open votes would list the session. UNBOUND_PROVES and HIGHER_PROVES forget one half of that. A liar is
   out of all sessions, if one believes it. */
bool never_releases(const State& x, int i, int m) {
    const Session& session = x.sessions[m];
    if (has(LYING, i)) return lies(SAYS_OUT);
    bool is_told = planted == EARLIER_PROVES && session.later && !has(session.released, i);
    if (x.nodes[i].session == m) return is_told;
    if (!has(session.released, i)) return true;
    bool higher = anchor(x, x.nodes[i].base) != anchor(x, session.parent);
    if (planted == UNBOUND_PROVES) return !higher && !has(session.voters, i);
    if (planted == HIGHER_PROVES) return higher;
    return false;
}

/* No honest node is in it. */
bool is_empty(const State& x, int m) {
    for (const Node& node : x.nodes)
        if (node.session == m) return false;
    return true;
}

/* These must still look at who released, or voted, in a session that is completed. */
bool misjudges() {
    bool may_deceive = planted == BELIEVES_ALL || LIARS > F || LIES != ALL_LIES;
    return planted == UNBOUND_PROVES || planted == HIGHER_PROVES || may_deceive;
}

/* The first of a set, `most` of them at most. */
Set first_of(Set set, int most) {
    Set rest = set;
    for (; most > 0 && rest != 0; most--) rest &= rest - 1;
    return set & ~rest;
}

/* Whether a session may have a result although these members say that they are out of it: f of them may lie.
   Voters are of most use to it. */
bool may_suffice(const State& x, const Session& session, Set out) {
    int doubted = planted == BELIEVES_ALL ? 0 : F;
    Set back = first_of(out & session.voters, doubted);
    back |= first_of(out & ~session.voters, doubted - size(back));
    return suffice(x, session, (session.members & ~out) | back);
}

/* Session m is dead: those who have released, or still may, cannot bring it to a result. */
bool is_dead(const State& x, int m) {
    if (x.sessions[m].stage == VOID) return true;
    if (is_completed(x, m) && !misjudges()) return false;
    Set out = 0;
    for (int i = 0; i < N; i++)
        if (has(x.sessions[m].members, i) && never_releases(x, i, m)) out |= only(i);
    return !may_suffice(x, x.sessions[m], out);
}

/* What the liars in session m can make of it. */
Set with_liars(const State& x, int m) { return x.sessions[m].released | (x.sessions[m].members & LYING); }
bool liars_suffice(const State& x, int m) {
    const Session& session = x.sessions[m];
    bool is_due = session.stage == RUNNING && session.entered == session.members;
    return is_due && (session.members & LYING) != 0 && suffice(x, session, with_liars(x, m));
}

/* ---- what was reached: a search that never gets there shows nothing ---- */

enum Reached {
    FREED,
    RESIGNED,
    WITHOUT,
    TIED,
    UNBOUND,
    STRONG_ON_WEAK,
    COMPLETED_LATE,
    // in runs
    LATER_COMPLETED,
    LATER_OPEN,
    LATER_FREED,
    BEHIND,
    RIVALS,
    TAKEN_BACK,
    NOT_A_RUN,
    // with liars
    DIVIDED,
    AGAIN,
    BOTH_WAYS,
    DECEIVED,
    LATE,
    // with f > 0, where nobody lies
    TOO_FEW,
    STUCK,
    REACHED
};
const char* const reached_names[REACHED] = {
    "a vote closes, as its session is dead",
    "a node resigns",
    "a strong group needs that others resigned",
    "the first elector breaks a tie",
    "a member that is not bound releases",
    "a strong base on a weak one",
    "a node stores a result that it released for and did not wait for",
    "a later step of a run has a result",
    "a node leaves a later step between its vote and the base",
    "a vote in a later step closes, as that step is dead",
    "a node stores the result of a step that it left, while others go on in the run",
    "a group meets on a base from which a run goes on",
    "a power failure takes back a base of a run, and a vote is open again",
    "a group takes one step only, as a member has an open vote",
    "two groups at once on one anchor that share liars alone",
    "a liar votes in a group while another on the anchor with its vote may have a result",
    "a liar is excused in a group while another on the anchor with its vote may have a result",
    "a vote closes that would not, did liars not say that they are out",
    "liars make a result of a session that all others have left",
    "nobody lies and yet no group can be strong: f electors or fewer did not resign",
    "nobody lies and yet no group can be strong: a lie could hide a result",
};
bool is_about(int what) {
    if (what >= TOO_FEW) return F > 0 && LIARS == 0;
    if (what >= DIVIDED) return LIARS > 0;
    return what < LATER_COMPLETED || RUNS;
}

/* ---- the search ---- */

struct Step {
    const char* what;
    int node;  // or the members of a group, or liars
    int about;
};

/* The hashes of the states that were seen; open addressing, 0 is free. */
class Seen {
public:
    bool add(std::uint64_t hash) {
        if (hash == 0) hash = 1;
        if (!put(hash)) return false;
        if (++count_ * 10 > slots_.size() * 7) grow();
        return true;
    }
    std::size_t count() const { return count_; }

private:
    bool put(std::uint64_t hash) {
        std::size_t mask = slots_.size() - 1, at = hash & mask;
        for (; slots_[at] != 0; at = (at + 1) & mask)
            if (slots_[at] == hash) return false;
        slots_[at] = hash;
        return true;
    }
    void grow() {
        std::vector<std::uint64_t> old(slots_.size() * 2);
        old.swap(slots_);
        for (std::uint64_t hash : old)
            if (hash != 0) put(hash);
    }
    std::vector<std::uint64_t> slots_ = std::vector<std::uint64_t>(1 << 16);
    std::size_t count_ = 0;
};

std::uint64_t mixed(std::uint64_t word) {  // the finaliser of MurmurHash3
    word = (word ^ word >> 33) * 0xff51afd7ed558ccd;
    word = (word ^ word >> 33) * 0xc4ceb9fe1a85ec53;
    return word ^ word >> 33;
}

std::uint64_t hash_of(const State& x) {
    std::uint64_t words[(sizeof x + 7) / 8] = {}, hash = 0;
    std::memcpy(words, &x, sizeof x);
    for (std::uint64_t word : words) hash = mixed(hash ^ word) + 0x9e3779b97f4a7c15;
    return mixed(hash);
}

class Search {
public:
    Search() {
        State first{};
        for (Node& node : first.nodes) node.session = node.after = NO_SESSION;
        reach(first, {"", 0, 0});
    }

    void run() {
        while (take()) {
            if (LIMIT != 0 && seen_.count() > LIMIT) return report("cut off");
            for (int i = LIARS; i < N; i++) node_steps(i);
            for (int m = 0; m < x_.begun; m++)
                if (liars_suffice(x_, m)) liars_release(m);
            if (x_.begun < S) group_steps();
        }
        report("exhaustive");
    }

private:
    /* -- what a node may do -- */

    void node_steps(int i) {
        bool busy = x_.nodes[i].session != NO_SESSION, between = x_.nodes[i].after != NO_SESSION;
        bool votes_matter = x_.begun < S;
        if (busy) leaves(i);
        if (between) leaves_run(i);
        if (between) enters(i, x_.nodes[i].after);
        if (busy && may_release(i)) releases(i);
        for (int m = 0; m < x_.begun; m++)
            if ((busy ? x_.nodes[i].session == m : !between) && is_completed(x_, m)) stores(i, m);
        if (votes_matter) closes_votes(i);
        bool may_resign = (!busy || planted == RESIGNS_MIDWAY) && (!between || planted == RESIGNS_BETWEEN);
        if (RESIGN && votes_matter && may_resign) resigns(i);
        if (POWER && votes_matter) loses_power(i);
        if (planted == GOES_AHEAD || planted == GOES_AHEAD_BOUND) goes_ahead(i);
        if (planted == COMES_BACK && !busy && !between) comes_back(i);
    }

    void leaves(int i) {
        State y = x_;
        int m = y.nodes[i].session;
        reached_[LATER_OPEN] += x_.sessions[m].later && has(x_.nodes[i].open, m);
        leave(y, i);
        keep(y.nodes[i]);
        reach(y, {"leaves session", i, m});
    }

    /* What was stored last is on disk. */
    void keep(Node& node) {
        if (!POWER || x_.begun == S) return;
        node.kept_base = node.base;
        node.kept_open = node.open;
    }

    void leave(State& y, int i) {
        int m = y.nodes[i].session;
        y.nodes[i].session = NO_SESSION;
        if (is_empty(y, m) && !is_completed(y, m) && is_dead(y, m) && !liars_suffice(y, m))
            y.sessions[m] = {VOID, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    }

    bool may_release(int i) {
        const Session& session = x_.sessions[x_.nodes[i].session];
        bool is_due = session.stage != COMPLETED && session.entered == session.members;
        return is_due && !has(session.released, i);
    }

    void releases(int i) {
        int m = x_.nodes[i].session;
        State y = x_;
        y.sessions[m].released |= only(i);
        bool bound = has(x_.sessions[m].voters, i);
        bool forgets = planted == NO_DOUBT || (planted == LATER_UNBOUND && x_.sessions[m].later);
        if (bound && !forgets && x_.begun < S) {
            y.nodes[i].open |= only(m);
            if (planted != VOTES_UNSYNCED) keep(y.nodes[i]);
        }
        reached_[UNBOUND] += !bound;
        reached_[LATER_COMPLETED] +=
            x_.sessions[m].later && suffice(y, y.sessions[m], y.sessions[m].released);
        if (suffice(y, y.sessions[m], y.sessions[m].released)) y.sessions[m] = completed(y.sessions[m]);
        reach(y, {"releases in session", i, m});
        if (is_completed(y, m)) check_only_successor(y, m);
    }

    /* Even long after all others left it. */
    void liars_release(int m) {
        State y = x_;
        y.sessions[m].released = with_liars(x_, m);
        y.sessions[m] = completed(y.sessions[m]);
        reached_[LATE] += is_empty(x_, m);
        reached_[LATER_COMPLETED] += x_.sessions[m].later;
        reach(y, {"release in session", x_.sessions[m].members & LYING, m});
        check_only_successor(y, m);
    }

    Session completed(Session session) {
        session.stage = COMPLETED;
        if (!misjudges()) session.members = session.voters = session.excused = session.released = 0;
        session.later = session.entered = 0;
        return session;
    }

    void stores(int i, int m) {
        Index old = x_.nodes[i].base, base = m + 1;
        if (base == old || rank(x_, base) < rank(x_, old)) return;
        State y = x_;
        Node& node = y.nodes[i];
        if (x_.nodes[i].session == m && x_.sessions[m].runs) node.after = m;
        node.base = base;
        node.session = NO_SESSION;
        if (planted != NEVER_CLOSES) node.open &= ~below(y, anchor(y, base));
        reached_[STRONG_ON_WEAK] += is_strong(x_, base) && !is_strong(x_, x_.sessions[m].parent);
        reached_[COMPLETED_LATE] += has(x_.nodes[i].open, m) && x_.nodes[i].session != m;
        reached_[BEHIND] += has(x_.nodes[i].open, m) && x_.nodes[i].session != m && x_.sessions[m].runs;
        if (POWER && x_.begun < S) {  // where it matters whether this is on disk: it is not
            if (planted == CLOSES_FIRST) y.nodes[i].kept_open = y.nodes[i].open;
            reach(y, {"stores (not synced) the base of session", i, m});
        }
        keep(node);
        reach(y, {"stores the base of session", i, m});
        check_past_is_kept(y, old, base);
    }

    /* -- runs -- */

    void leaves_run(int i) {
        State y = x_;
        y.nodes[i].after = NO_SESSION;
        reach(y, {"leaves its run after session", i, x_.nodes[i].after});
    }

    /* Node i enters the step after session m; it is the first, or the others wait there for its update. */
    void enters(int i, int m) {
        State y = x_;
        if (y.sessions[m].next == 0) {
            if (y.begun == S) return;
            y.sessions[y.begun] = next_step(m);
            y.sessions[m].next = ++y.begun;
            if (y.begun == S) forget_votes(y);
        }
        Index next = y.sessions[m].next - 1;
        Session& session = y.sessions[next];
        if (session.stage != RUNNING || has(session.entered, i)) return;
        session.entered |= only(i);
        y.nodes[i].session = next;
        y.nodes[i].after = NO_SESSION;
        if (planted == GOES_AHEAD && y.nodes[i].base != m + 1) {
            y.nodes[i].open &= ~only(m);
            keep(y.nodes[i]);
        }
        reach(y, {"enters the next step, session", i, next});
    }

    Session next_step(Index m) {
        Set members = x_.sessions[m].included;
        Session session{};
        session.stage = RUNNING;
        session.parent = m + 1;
        session.members = session.included = session.voters = members;
        session.runs = session.later = 1;
        session.entered = members & LYING;
        if (planted == FIRST_ELECTORS) {
            session.first = x_.sessions[m].first;
            session.voters &= electors(x_, session.first);
        }
        return session;
    }

    void goes_ahead(int i) {
        int m = x_.nodes[i].session;
        if (m != NO_SESSION && is_completed(x_, m) && x_.sessions[m].runs) enters(i, m);
    }

    void comes_back(int i) {
        for (int m = 0; m < x_.begun; m++)
            if (x_.sessions[m].runs && x_.nodes[i].base == m + 1 && has(x_.sessions[m].included, i))
                enters(i, m);
    }

    void loses_power(int i) {
        const Node& now = x_.nodes[i];
        if (now.base == now.kept_base && now.open == now.kept_open) return;
        State y = x_;
        Node& node = y.nodes[i];
        node.base = now.kept_base;
        node.open = now.kept_open;
        if (node.session != NO_SESSION) leave(y, i);
        node.after = NO_SESSION;
        reached_[TAKEN_BACK] += (node.open & ~now.open) != 0;
        reach(y, {"loses power", i, now.base});
    }

    /* A run that nobody is in any more is over. */
    void end_runs(State& y) {
        for (int m = 0; m < y.begun; m++) {
            if (!y.sessions[m].runs || !is_completed(y, m)) continue;
            bool goes_on = false;
            for (const Node& node : y.nodes) goes_on |= node.session == m || node.after == m;
            if (!goes_on) y.sessions[m].runs = y.sessions[m].next = y.sessions[m].first = 0;
        }
    }

    /* The sessions on a lower anchor: they are decided. */
    Set below(const State& x, Index strong) {
        Set lower = 0;
        for (int m = 0; m < x.begun; m++)
            if (generation(x, anchor(x, x.sessions[m].parent)) < generation(x, strong)) lower |= only(m);
        return lower;
    }

    void closes_votes(int i) {
        for (int m = 0; m < x_.begun; m++) {
            bool may = planted == FORGETS ? x_.nodes[i].session == NO_SESSION || is_dead(x_, m)
                                          : planted == FORGIVES || is_dead(x_, m);
            if (!has(x_.nodes[i].open, m) || !may) continue;
            State y = x_;
            y.nodes[i].open &= ~only(m);
            keep(y.nodes[i]);
            reached_[FREED]++;
            reached_[LATER_FREED] += x_.sessions[m].later;
            reached_[DECEIVED] += deceives(m);
            reach(y, {"is free of its vote in session", i, m});
        }
    }

    /* Session m would not be dead if the liars among its members were known to be in it. */
    bool deceives(int m) {
        const Session& session = x_.sessions[m];
        Set out = 0;
        for (int i = LIARS; i < N; i++)
            if (has(session.members, i) && never_releases(x_, i, m)) out |= only(i);
        return session.stage == RUNNING && may_suffice(x_, session, out);
    }

    void resigns(int i) {
        Index from = anchor(x_, x_.nodes[i].base);
        if (!has(electors(x_, from), i) || has(x_.nodes[i].resigned, from)) return;
        if (x_.nodes[i].open != 0 && planted != RESIGNS_IN_DOUBT) return;
        State y = x_;
        y.nodes[i].resigned |= only(from);
        keep(y.nodes[i]);
        reached_[RESIGNED]++;
        reach(y, {"resigns as an elector of base", i, from});
    }

    /* -- which groups may form -- */

    void group_steps() {
        for (int members = 1; members <= ALL; members++) {
            if (size(members) < LEAST || !may_meet(members)) continue;
            Set honest = members & ~LYING;
            if (honest != 0) {
                group_of(members, x_.nodes[__builtin_ctz(honest)].base);
                continue;
            }
            group_of(members, FIRST_BASE);
            for (int m = 0; m < x_.begun; m++)
                if (is_completed(x_, m)) group_of(members, m + 1);
        }
    }

    bool may_meet(Set members) {
        Set honest = members & ~LYING;
        for (int i = 0; i < N; i++) {
            const Node& node = x_.nodes[i];
            bool is_free = node.session == NO_SESSION && node.after == NO_SESSION;
            if (has(honest, i) && !(is_free && node.base == x_.nodes[__builtin_ctz(honest)].base)) return false;
            if (is_free || lies(AT_ONCE)) continue;
            Index busy_in = node.session == NO_SESSION ? node.after : node.session;
            if ((x_.sessions[busy_in].members & members & LYING) != 0) return false;
        }
        return true;
    }

    void group_of(Set members, Index parent) {
        Set of = electors(x_, parent), voters = 0, resigned = 0;
        bool runs = RUNS;
        for (int i = LIARS; i < N; i++) {
            bool has_resigned = has(x_.nodes[i].resigned, anchor(x_, parent));
            bool is_bound = x_.nodes[i].open != 0 && planted != JOINS_BOUND;
            if (has(of, i) && has_resigned) resigned |= only(i);
            if (has(of & members, i) && !has_resigned && !is_bound) voters |= only(i);
            if (has(members, i) && (has_resigned || is_bound)) runs = false;
        }
        Session group{};
        group.stage = RUNNING;
        group.parent = parent;
        group.members = group.included = group.entered = members;
        group.weak = true;
        begins(group);
        group.weak = false;
        if (RESIGN && lies(RESIGNS_TOO)) resigned |= of & LYING;
        Set may_vote = of & members & LYING & ~(lies(VOTES_AGAIN) ? 0 : voted(anchor(x_, parent)));
        for (int lying = may_vote;; lying = (lying - 1) & may_vote) {  // each subset: the liars that are voters
            group.voters = voters | lying;
            group.runs = runs && lying == (members & LYING);
            if (planted == FIRST_ELECTORS && group.runs) group.first = parent;
            each_excuse(group, of, resigned & ~lying);
            if (lying == 0) break;
        }
    }

    void each_excuse(Session& group, Set of, Set resigned) {
        for (int excused = resigned;; excused = (excused - 1) & resigned) {  // each subset: whom they heard of
            if (is_quorum(group.voters, of, excused)) {
                int votes = size(group.voters);
                reached_[WITHOUT] += !is_quorum(group.voters, of, 0);
                reached_[TIED] += 2 * votes == size(of & ~excused);
                reached_[NOT_A_RUN] += RUNS && !group.runs;
                reached_[RIVALS] += group.parent != FIRST_BASE && maker(x_, group.parent).next != 0;
                group.excused = excused;
                if (LIARS) count_rivals(group);
                each_sum(group);
            }
            if (excused == 0) break;
        }
    }

    /* The liars whose vote on this anchor may count in a session that no honest node is in. */
    Set voted(Index on) {
        Set lying = 0;
        for (int m = 0; m < x_.begun; m++) {
            const Session& session = x_.sessions[m];
            bool is_over = session.stage == COMPLETED || is_empty(x_, m);
            if (session.stage != VOID && !session.weak && is_over && anchor(x_, session.parent) == on)
                lying |= session.voters & LYING;
        }
        return lying;
    }

    /* The other groups on this anchor that have liars of this one. */
    void count_rivals(const Session& group) {
        Index on = anchor(x_, group.parent);
        for (int m = 0; m < x_.begun; m++) {
            const Session& other = x_.sessions[m];
            if (other.stage != RUNNING || anchor(x_, other.parent) != on) continue;
            Set shared = other.members & group.members;
            reached_[DIVIDED] += shared != 0 && (shared & ~LYING) == 0 && !is_empty(x_, m);
            reached_[AGAIN] += (other.voters & group.voters & LYING) != 0;
            reached_[BOTH_WAYS] += (other.voters & group.excused & LYING) != 0;
        }
    }

    /* A strong group's sum holds all members' updates, or all but one's. */
    void each_sum(Session session) {
        bool may_drop = DROP && size(session.members) > threshold(session.members);
        for (int dropped = may_drop ? 0 : N; dropped <= N; dropped++) {
            if (dropped < N && !has(session.members, dropped)) continue;
            session.included = session.members & ~(dropped < N ? only(dropped) : 0);
            begins(session);
        }
    }

    void begins(Session session) {
        Step step = {session.weak ? "make a weak group on base" : "make a strong group on base", session.members,
                     session.parent};
        if (session.weak && planted == WEAK_ELECTS) {
            session.weak = false;
            session.voters = session.members;
            session.excused = ALL & ~session.members;
        }
        State y = x_;
        Index m = y.begun++;
        for (int i = LIARS; i < N; i++)
            if (has(session.members, i) && !session.weak) y.nodes[i].session = m;
        y.sessions[m] = session.weak ? completed(session) : session;
        if (y.begun == S) forget_votes(y);
        reach(y, step);
    }

    void forget_votes(State& y) {
        for (Node& node : y.nodes) node.open = node.resigned = node.kept_base = node.kept_open = 0;
    }

    /* -- what must hold -- */

    void check_past_is_kept(const State& y, Index old, Index base) {
        for (Index past = old;; past = maker(y, past).parent) {
            if (is_strong(y, past) && !descends(y, base, past)) violated("a strong base was discarded");
            if (past == FIRST_BASE) return;
        }
    }

    void check_only_successor(const State& y, int m) {
        Index of = anchor(y, y.sessions[m].parent);
        for (int other = 0; other < y.begun; other++) {
            const Session& session = y.sessions[other];
            if (other != m && !session.weak && is_completed(y, other) && anchor(y, session.parent) == of)
                violated("an anchor has two strong successors");
        }
    }

    /* Once all are in no session, have the highest base, and close the votes that they may. */
    void check_way_on(State y) {
        Index highest = FIRST_BASE;
        for (Node& node : y.nodes) node.session = node.after = NO_SESSION;
        for (int m = 0; m < y.begun; m++)
            if (is_completed(y, m) && rank(y, m + 1) > rank(y, highest)) highest = m + 1;
        Set of = electors(y, highest), voters = 0, resigned = 0;
        for (int i = 0; i < N; i++) {
            Set open = y.nodes[i].open;
            if (planted != NEVER_CLOSES) open &= ~below(y, anchor(y, highest));
            for (int m = 0; m < y.begun; m++)
                if (is_dead(y, m)) open &= ~only(m);
            if (has(y.nodes[i].resigned, anchor(y, highest))) resigned |= only(i);
            else if (open == 0) voters |= only(i);
        }
        if ((of & ~resigned) == 0 || is_quorum(voters, of, resigned)) return;
        if (F == 0) violated("no group is strong any more");
        reached_[is_quorum(of, of, resigned) ? STUCK : TOO_FEW]++;
    }

    /* -- depth first; breadth first where the way to a violation is wanted, for the shortest one -- */

    struct Visit {
        State state;
        std::size_t before;
        Step step;
    };

    void reach(State y, Step step) {
        steps_++;
        latest_ = step;
        if (RUNS) end_runs(y);
        if (!seen_.add(hash_of(y))) return;
        if (y.begun < S && LIARS == 0) check_way_on(y);
        if (tracing)
            visits_.push_back({y, next_ - (next_ > 0), step});
        else
            stack_.push_back(y);
    }

    bool take() {
        if (tracing) {
            if (next_ == visits_.size()) return false;
            x_ = visits_[next_++].state;
        } else {
            if (stack_.empty()) return false;
            x_ = stack_.back();
            stack_.pop_back();
        }
        return true;
    }

    void report(const char* end) {
        std::printf("%s (%zu states, %zu steps)\n", end, seen_.count(), steps_);
        for (int what = 0; what < REACHED; what++)
            if (is_about(what)) std::printf("reached %zu times: %s\n", reached_[what], reached_names[what]);
    }

    [[noreturn]] void violated(const char* reason) {
        std::printf("VIOLATED: %s (%zu states, %zu steps)\n", reason, seen_.count(), steps_);
        if (tracing) print_trace();
        std::exit(1);
    }

    void print_trace() {
        std::vector<Step> way = {latest_};
        for (std::size_t at = next_ - 1; at != 0; at = visits_[at].before) way.push_back(visits_[at].step);
        for (std::size_t k = way.size(); k-- > 0;) print(way[k]);
    }

    void print(Step step) {
        bool many = std::strncmp(step.what, "make", 4) == 0 || std::strncmp(step.what, "release ", 8) == 0;
        std::printf("  ");
        for (int i = 0; i < N; i++)
            if (many ? has(step.node, i) : step.node == i) std::printf("%d ", i);
        std::printf("%s %d\n", step.what, step.about);
    }

    State x_;  // whose successors are being reached
    Seen seen_;
    std::vector<State> stack_;
    std::deque<Visit> visits_;
    std::size_t next_ = 0, steps_ = 0, reached_[REACHED] = {};
    Step latest_ = {};
};

int main([[maybe_unused]] int, [[maybe_unused]] char** arguments) {
#ifdef FAULTS
    planted = static_cast<Fault>(std::atoi(arguments[1]));
#endif
    Search().run();
}
