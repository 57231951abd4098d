/* Messages 6 to 9 of a masked session (ACK, RELEASE, VIEWCHANGE, PROPOSE; protocol, Part II, D), for spin.
   n = 4 members; f = 1 may fall silent; t = n - f = 3 shares open a secret; m = n - 2 f - 1 = 1 may lie.

   NETWORK. What was sent stays in reach of every receiver, who may act on it at any later time, or never:
   that is any delay, any reordering, and any loss. `...To` masks say which receivers a message can reach; a
   crash takes any of the sender's messages away from any receiver, whether it was in the middle of a
   broadcast or the rest still lay in its buffers.

   LIARS are the LIARS last members, and are not processes: their every message is there at any time, for any
   value, and different ones for different receivers. They acknowledge and release for whatever anybody
   wants; vote in every view, without a lock or with any lock that can be proved; as leaders they propose to
   each member whatever can be justified to it. Of totals there are two, T and T', wherever a liar is
   included: it may add to its input after the fact, and honest members check both, if asked. That is more
   than a liar can do. What t members released for is a result, held by whoever looks.

   VALUES. What is acknowledged is (U, H(T)), written w = 1..10: SET(w) = 0 includes everybody, k + 1
   everybody but member k; odd w is T, even w is T'. A proposal is 0 (none), 1..5 (a new U, whose totals are
   still to be made: messages 3, 4 and 5 are one, a member's part in them) or 5 + w (a lock, proposed again
   with its proof, and acknowledged at once by who is free to).

   A RUN OF STEPS (STEPS > 1, with liars). Each step is such a session, with secrets of its own. After a step
   that has a result any honest member may leave the run; the others begin the next step without it. Nothing
   in a step depends on a later one, and what is released stays released. So all of a step may come before all
   of the next: here the steps follow each other, and a step's messages are forgotten when the next one
   begins. What is kept is which secrets are open. A vector is bare if its self mask and its sender's pair key
   are open. Liars' shares count in every step.

   WHAT CHOOSES A RUN (-D...):
     STEPS=k      a run of k steps (default 1); LATER=o: member o + v leads view v of each step but the first
     ALL_OR_NONE  a sum counts only with every member in it, as in the product's runs
     LIARS=0..2   how many members lie (default 1); with none, members complete, and must
     CRASH        one member may crash, at any step (CRASHER=i: member i)
     MIDWAY       a crash takes away only what was sent last
     VIEWS=3, 4   views 0 .. VIEWS-1 (default 3); OFFSET=o: member o + v leads view v (default 0)
     ORDERED      a leader waits for all who live, and a view after the first is left only when nothing else
                  can happen any more: deadlines are longer than deliveries. Without it, nobody need wait
     PROMPT       with ORDERED: the first view is left in that way, too
     AGREEMENT=0  do not claim that all release for one value; ONCE=0: nor that they release once
     UNREACHED=k  claim that line k of `happened` never happens: shows what is covered
   PLANTED FAULTS: RELEASES_AGAIN, ACKS_AGAIN, RELEASES_ON_ONE_ACK, IGNORES_LOCKS, RELEASED_IS_DEAF,
   NO_RELAY, ACKS_AFTER_VOTING (in the view that the vote is to leave). In a run: SELF_MASK_AGAIN,
   PAIR_KEY_AGAIN (a later step has the same ones). */

#define N 4
#define T 3
#ifndef LIARS
#define LIARS 1
#endif
#ifndef VIEWS
#define VIEWS 3
#endif
#ifndef AGREEMENT
#define AGREEMENT 1
#endif
#ifndef ONCE
#define ONCE 1
#endif
#ifndef OFFSET
#define OFFSET 0
#endif
#ifndef UNREACHED
#define UNREACHED 0
#endif
#ifndef STEPS
#define STEPS 1
#endif
#ifndef LATER
#define LATER OFFSET
#endif

#define HONEST(j) ((j) < N - LIARS)
#define ALL(P, a, b) (P(0, a, b) && P(1, a, b) && P(2, a, b) && P(3, a, b))
#define ANY(P, a, b) (P(0, a, b) || P(1, a, b) || P(2, a, b) || P(3, a, b))
#define COUNT(P, a, b) (P(0, a, b) + P(1, a, b) + P(2, a, b) + P(3, a, b))
#define HAS(set, element) (((set) >> (element)) & 1)

#define SET(w) (((w) - 1) / 2)
#define INCLUDES(set, j) ((set) != (j) + 1)
#define FRESH(set) ((set) + 1)
#define AGAIN(w) ((w) + 5)
#define LEADER(v) (((v) + offset) % N)
#define AT(v, j) ((v) * N + (j))

/* Of the releases in `sets`, those that leave member k out, and those that include it. */
#define WITHOUT(sets, k) ((sets) & (3 << (2 * (k) + 3)))
#define WITH(sets, k) ((sets) & (2046 - (3 << (2 * (k) + 3))))

byte offset = OFFSET;     /* the session's id, modulo n: who leads first */
byte crashed = N;         /* which member; N: none */
byte view[N];
byte accepted[N] = 1;     /* the proposal of one's view; view 0 needs none: everybody is included */
#ifdef ACKS_AFTER_VOTING
bit waits[N];
#define WAITS(j) (waits[j])
#else
#define WAITS(j) (accepted[j] == 0)
#endif
byte completed[N];        /* w */
byte completedTo[N];      /* whom the certificate reaches (or the releases, passed on) */
byte checkTo[5 * N];      /* [set, member]: whom its part in totals over that set reached: messages 3, 4, 5 */
byte lock[N];             /* what was acknowledged last */
short acks[N];            /* bit w: acknowledged */
byte ackTo[N];
short releases[N];        /* bit w: released */
byte times[N];            /* how often */
byte releaseTo[N];
byte vote[VIEWS * N];     /* VIEWCHANGE: 0 none, else 1 + lock */
byte voteTo[VIEWS * N];
byte proposal[VIEWS];     /* of an honest leader */
byte proposalTo[VIEWS];
#ifdef MIDWAY
byte latest[N] = 3;       /* the broadcast that a member made last */
#define SENDS(kind) latest[i] = kind
#define LOST(kind) (latest[i] == (kind))
#else
#define SENDS(kind) skip
#define LOST(kind) (1)
#endif

byte step = 1;            /* of the run */
byte members = 15;        /* whose vectors may be in this step: who did not leave the run */
byte selfsOpen;           /* honest members whose self mask was opened in an earlier step */
byte keysOpen;            /* whose pair key was */

bit both_opened, key_opened, two_results, released_twice, two_values_released, happened;

/* ---- what member i sees ---- */
#define CHECKED(j, w, i) (!HONEST(j) || !INCLUDES(SET(w), j) || HAS(checkTo[AT(SET(w), j)], i))
#define ACKED(j, w, i) (!HONEST(j) || (HAS(acks[j], w) && HAS(ackTo[j], i)))
#define RELEASED(j, w, i) (!HONEST(j) || (HAS(releases[j], w) && HAS(releaseTo[j], i)))
#define RELAYED(j, w, i) (HONEST(j) && completed[j] == (w) && HAS(completedTo[j], i))

#define VOTED(j, v, i) (!HONEST(j) || (vote[AT(v, j)] != 0 && HAS(voteTo[AT(v, j)], i)))
#define VOTED_HONESTLY(j, v, i) (HONEST(j) && VOTED(j, v, i))
#ifdef IGNORES_LOCKS
#define FREE(j, v, i) VOTED(j, v, i)
#else
#define FREE(j, v, i) (!HONEST(j) || (vote[AT(v, j)] == 1 && HAS(voteTo[AT(v, j)], i)))
#endif
/* That member j, if it is in the set, answered and has no lock. */
#define FREE_0(j, v, i) FREE(j, v, i)
#define FREE_1(j, v, i) ((j) == 0 || FREE(j, v, i))
#define FREE_2(j, v, i) ((j) == 1 || FREE(j, v, i))
#define FREE_3(j, v, i) ((j) == 2 || FREE(j, v, i))
#define FREE_4(j, v, i) ((j) == 3 || FREE(j, v, i))
#define LOCKED(j, v, w) (HONEST(j) && vote[AT(v, j)] == 1 + (w))
#define LOCK_SHOWN(j, v, w) (LOCKED(j, v, w) && HAS(voteTo[AT(v, j)], i))
/* A liar's lock needs the CHECK of every honest member that it includes. */
#define LOCK_MADE(w) (LIARS > 0 && ALL(CHECKED, w, i))
#define LOCK_SEEN(v, w) (ANY(LOCK_SHOWN, v, w) || LOCK_MADE(w))

#ifdef ORDERED
#define ANSWERED(j, v, i) (crashed == (j) || VOTED(j, v, i))
#define ALL_ANSWERED(v) ALL(ANSWERED, v, i)
#define NO_OTHER_LOCK(j, v, w) (!VOTED(j, v, i) || vote[AT(v, j)] <= 1 || LOCKED(j, v, w))
/* Those who answered are included: all but k only if k did not. */
#define EXACTLY(set, v) (!((set) > 0 && VOTED((set) - 1, v, i)))
#else
#define ALL_ANSWERED(v) (1)
#define NO_OTHER_LOCK(j, v, w) (1)
#define EXACTLY(set, v) (1)
#endif

#ifndef ORDERED
#define DEADLINE(i) (1)
#elif defined(PROMPT)
#define DEADLINE(i) timeout
#else
#define DEADLINE(i) (view[i] == 0 || timeout)
#endif

#ifdef RELEASED_IS_DEAF
#define LISTENS(i) (times[i] == 0)
#else
#define LISTENS(i) (1)
#endif

/* ---- what must hold ---- */
#define SHARE_OF_SELF(j, k, unused) (!HONEST(j) || WITH(releases[j], k) != 0)
#define SHARE_OF_KEY(j, k, unused) (!HONEST(j) || WITHOUT(releases[j], k) != 0)
#define SELF_OPENS(k) (COUNT(SHARE_OF_SELF, k, 0) >= T)
#define KEY_OPENS(k) (COUNT(SHARE_OF_KEY, k, 0) >= T)
#ifdef SELF_MASK_AGAIN
#define SELF_ALSO(open) (open)
#else
#define SELF_ALSO(open) (0)
#endif
#ifdef PAIR_KEY_AGAIN
#define KEY_ALSO(open) (open)
#else
#define KEY_ALSO(open) (0)
#endif
/* That a vector of member k is bare: this step's, or an earlier one's. */
#define BARE_NOW(k) \
    (HAS(members, k) && (SELF_OPENS(k) || SELF_ALSO(HAS(selfsOpen, k))) \
                     && (KEY_OPENS(k) || KEY_ALSO(HAS(keysOpen, k))))
#define BARE_BEFORE(k) \
    (STEPS > 1 && (HAS(selfsOpen, k) || (step > 1 && SELF_ALSO(SELF_OPENS(k)))) \
               && (HAS(keysOpen, k) || (step > 1 && KEY_ALSO(KEY_OPENS(k)))))
#define BOTH(k, unused, unused2) (BARE_NOW(k) || BARE_BEFORE(k))
#define OPENED_KEY(k, unused, unused2) KEY_OPENS(k)
#define OTHER_RELEASE(j, w, unused) (HONEST(j) && (releases[j] & ~(1 << (w))) != 0)
#define RESULT(w) (COUNT(RELEASED, w, i) >= T)
#define TRUE_RESULTS (RESULT(1) + RESULT(3) + RESULT(5) + RESULT(7) + RESULT(9))
#define FALSE_RESULTS (RESULT(2) + RESULT(4) + RESULT(6) + RESULT(8) + RESULT(10))

inline check_release(w) {
    both_opened = ANY(BOTH, 0, 0);
    assert(!both_opened);
#ifdef ALL_OR_NONE
    key_opened = ANY(OPENED_KEY, 0, 0);
    assert(!key_opened);
#endif
    two_results = TRUE_RESULTS + FALSE_RESULTS > 1;
    assert(!two_results);
#if ONCE
    released_twice = times[i] > 1;
    assert(!released_twice);
#endif
#if AGREEMENT
    two_values_released = ANY(OTHER_RELEASE, w, 0);
    assert(!two_values_released);
#endif
#if UNREACHED
    happened = RESULT(w) && (
           (UNREACHED == 1 && view[i] == 0)
        || (UNREACHED == 2 && view[i] == 2 && accepted[i] == FRESH(SET(w)) && SET(w) != 0)
        || (UNREACHED == 3 && view[i] == 2 && accepted[i] == AGAIN(w) && SET(w) == 0)
        || (UNREACHED == 4 && w % 2 == 0)
        || (UNREACHED == 5 && !INCLUDES(SET(w), i))
        || (UNREACHED == 6 && crashed < N && SET(w) == crashed + 1)
        || (UNREACHED == 7 && crashed < N && SET(w) == 0 && view[i] > 0)
        || (UNREACHED == 8 && step == STEPS && members == 15 && SET(w) == 0)
        || (UNREACHED == 9 && step == STEPS && members == 15 && SET(w) > 0 && HAS(selfsOpen, SET(w) - 1))
        || (UNREACHED == 10 && step == STEPS && members != 15));
    assert(!happened);
#endif
}

/* ---- what a member does; `i` is the member that does it ---- */
inline enter(v) {
    view[i] = v;
#ifdef ACKS_AFTER_VOTING
    waits[i] = 1;
#else
    accepted[i] = 0;
#endif
    vote[AT(v, i)] = 1 + lock[i];
    voteTo[AT(v, i)] = 15;
    SENDS(8 + v)
}

inline take(what) {
#ifdef ACKS_AFTER_VOTING
    waits[i] = 0;
#endif
    accepted[i] = what
}

/* Member i takes up what is proposed in its view; its part in new totals, if it is included, is sent. */
inline take_up(set) {
    take(FRESH(set));
    if :: INCLUDES(set, i) -> checkTo[AT(set, i)] = 15; SENDS(3 + set) :: else fi
}

inline acknowledge(w) {
    lock[i] = w;
    acks[i] = acks[i] | (1 << (w));
    ackTo[i] = 15;
    SENDS(0)
}

#ifdef ACKS_AGAIN
#define MAY_ACK(w) (!HAS(acks[i], w))
#else
#define MAY_ACK(w) (acks[i] == 0)
#endif
#define ACKS(w) \
    :: atomic { MAY_ACK(w) && accepted[i] == FRESH(SET(w)) && ALL(CHECKED, w, i) -> acknowledge(w) }

#ifdef RELEASES_ON_ONE_ACK
#define MAY_RELEASE(w) (times[i] == 0 && HAS(acks[i], w))
#elif defined(RELEASES_AGAIN)
#define MAY_RELEASE(w) (times[i] < 2 && COUNT(ACKED, w, i) >= T)
#else
#define MAY_RELEASE(w) (times[i] == 0 && COUNT(ACKED, w, i) >= T)
#endif
#define RELEASES(w) \
    :: atomic { MAY_RELEASE(w) -> \
        times[i]++; releases[i] = releases[i] | (1 << (w)); releaseTo[i] = 15; SENDS(1); check_release(w) }

#ifdef NO_RELAY
#define RELAYS 0
#define HOLDS_RESULT(w) (COUNT(RELEASED, w, i) >= T)
#else
#define RELAYS 15
#define HOLDS_RESULT(w) (COUNT(RELEASED, w, i) >= T || ANY(RELAYED, w, i))
#endif
#define COMPLETES(w) \
    :: atomic { HOLDS_RESULT(w) -> completed[i] = w; completedTo[i] = RELAYS; SENDS(2); break }

/* An honest leader: of the votes that it sees, any t or more; a lock among them binds it. */
#define LEADS(v) (LEADER(v) == i && view[i] == (v) && proposal[v] == 0 && ALL_ANSWERED(v))
#define PROPOSES(v, set, FREE_ONES) \
    :: atomic { LEADS(v) && EXACTLY(set, v) && ALL(FREE_ONES, v, i) -> \
        proposal[v] = FRESH(set); proposalTo[v] = 15; SENDS(12 + v) }
#ifdef IGNORES_LOCKS
#define PROPOSES_AGAIN(v, w)
#else
#define PROPOSES_AGAIN(v, w) \
    :: atomic { LEADS(v) && COUNT(VOTED, v, i) >= T && LOCK_SEEN(v, w) && ALL(NO_OTHER_LOCK, v, w) -> \
        proposal[v] = AGAIN(w); proposalTo[v] = 15; SENDS(12 + v) }
#endif

/* An honest leader's proposal, in this view or a later one. */
#define ACCEPTS(v, set, FREE_ONES) \
    :: atomic { MAY_TAKE(v) && proposal[v] == FRESH(set) && HAS(proposalTo[v], i) -> \
        catch_up(v); take_up(set) }
#define ACCEPTS_AGAIN(v, w) \
    :: atomic { MAY_TAKE(v) && proposal[v] == AGAIN(w) && HAS(proposalTo[v], i) -> \
        catch_up(v); take(AGAIN(w)); if :: MAY_ACK(w) -> acknowledge(w) :: else fi }
#define MAY_TAKE(v) (LISTENS(i) && (view[i] < (v) || (view[i] == (v) && WAITS(i))))
inline catch_up(v) {
    if :: view[i] < (v) -> enter(v) :: else fi
}
/* A lying leader's: whatever t votes justify; it shows each member other ones. */
#define MAY_BE_TOLD(v) (!HONEST(LEADER(v)) && view[i] == (v) && WAITS(i))
#define IS_TOLD(v, set, FREE_ONES) \
    :: atomic { MAY_BE_TOLD(v) && ALL(FREE_ONES, v, i) -> take_up(set) }
#define IS_TOLD_AGAIN(v, w) \
    :: atomic { MAY_BE_TOLD(v) && MAY_ACK(w) && COUNT(VOTED, v, i) >= T \
                && (ANY(LOCKED, v, w) || LOCK_MADE(w)) -> \
        take(AGAIN(w)); acknowledge(w) }

#define GIVES_UP(v) \
    :: atomic { LISTENS(i) && view[i] == (v) - 1 && DEADLINE(i) -> enter(v) }
#define FOLLOWS(v) \
    :: atomic { LISTENS(i) && view[i] < (v) && ANY(VOTED_HONESTLY, v, i) -> enter(v) }

/* For every value: T' only where a liar is included (and no liar, no T'). */
#define EACH_TRUE(OPTION) OPTION(1) OPTION(3) OPTION(5) OPTION(7) OPTION(9)
#define EACH_TRUE_OF(OPTION, v) OPTION(v, 1) OPTION(v, 3) OPTION(v, 5) OPTION(v, 7) OPTION(v, 9)
#if defined(ALL_OR_NONE)
#define EACH_VALUE(OPTION) OPTION(1) OPTION(2)
#define EACH_VALUE_OF(OPTION, v) OPTION(v, 1) OPTION(v, 2)
#elif LIARS == 0
#define EACH_VALUE(OPTION) EACH_TRUE(OPTION)
#define EACH_VALUE_OF(OPTION, v) EACH_TRUE_OF(OPTION, v)
#elif LIARS == 1
#define EACH_VALUE(OPTION) EACH_TRUE(OPTION) OPTION(2) OPTION(4) OPTION(6) OPTION(8)
#define EACH_VALUE_OF(OPTION, v) EACH_TRUE_OF(OPTION, v) OPTION(v, 2) OPTION(v, 4) OPTION(v, 6) OPTION(v, 8)
#else
#define EACH_VALUE(OPTION) EACH_TRUE(OPTION) OPTION(2) OPTION(4) OPTION(6) OPTION(8) OPTION(10)
#define EACH_VALUE_OF(OPTION, v) \
    EACH_TRUE_OF(OPTION, v) OPTION(v, 2) OPTION(v, 4) OPTION(v, 6) OPTION(v, 8) OPTION(v, 10)
#endif
#ifdef ALL_OR_NONE
#define EACH_SET_OF(OPTION, v) OPTION(v, 0, FREE_0)
#else
#define EACH_SET_OF(OPTION, v) \
    OPTION(v, 0, FREE_0) OPTION(v, 1, FREE_1) OPTION(v, 2, FREE_2) OPTION(v, 3, FREE_3) OPTION(v, 4, FREE_4)
#endif
#if LIARS == 0
#define LIES_IN(v)
#else
#define LIES_IN(v) EACH_SET_OF(IS_TOLD, v) EACH_VALUE_OF(IS_TOLD_AGAIN, v)
#endif
#define IN_VIEW(v) \
    GIVES_UP(v) FOLLOWS(v) EACH_SET_OF(PROPOSES, v) EACH_VALUE_OF(PROPOSES_AGAIN, v) \
    EACH_SET_OF(ACCEPTS, v) EACH_VALUE_OF(ACCEPTS_AGAIN, v) LIES_IN(v)

/* What a receiver has no more use for makes no difference; it is lost. */
inline lose(to, wanted, r) {
    if
    :: HAS(to, r) && wanted
    :: HAS(to, r) -> to = to & ~(1 << r)
    :: else
    fi
}
#define LOSE_EACH(to, WANTS) \
    lose(to, WANTS(0), 0); lose(to, WANTS(1), 1); lose(to, WANTS(2), 2); lose(to, WANTS(3), 3)
#define GOES_ON(r) (r != i && completed[r] == 0)
#define WANTS_CHECKS(r) (GOES_ON(r) && acks[r] == 0)
#define WANTS_ACKS(r) (GOES_ON(r) && times[r] == 0)
#define WANTS_RELEASES(r) GOES_ON(r)
#define WANTS_VOTE(r) (GOES_ON(r) && (view[r] < k || (view[r] == k && LEADER(k) == r && proposal[k] == 0)))
#define WANTS_PROPOSAL(r) (GOES_ON(r) && (view[r] < k || (view[r] == k && WAITS(r))))
/* Where LOST is not everything, only the broadcast that was made last is taken away. */
inline crash() {
    crashed = i;
    if :: LOST(0) -> LOSE_EACH(ackTo[i], WANTS_ACKS) :: else fi;
    if :: LOST(1) -> LOSE_EACH(releaseTo[i], WANTS_RELEASES) :: else fi;
    if :: LOST(2) -> LOSE_EACH(completedTo[i], WANTS_RELEASES) :: else fi;
    k = 0;
    do
    :: k < 5 -> if :: LOST(3 + k) -> LOSE_EACH(checkTo[AT(k, i)], WANTS_CHECKS) :: else fi; k++
    :: else -> break
    od;
    k = 1;
    do
    :: k < VIEWS ->
        if :: LOST(8 + k) -> LOSE_EACH(voteTo[AT(k, i)], WANTS_VOTE) :: else fi;
        if :: LEADER(k) == i && LOST(12 + k) -> LOSE_EACH(proposalTo[k], WANTS_PROPOSAL) :: else fi;
        k++
    :: else -> break
    od;
    k = 0
}
#ifndef CRASHER
#define CRASHER i
#endif
#ifdef CRASH
#define CRASHES :: atomic { crashed == N && i == CRASHER -> crash(); goto gone }
#else
#define CRASHES :: atomic { false -> goto gone }
#endif

proctype Member(byte i) {
    byte k;
    do
    EACH_VALUE(ACKS)
    EACH_VALUE(RELEASES)
#if LIARS == 0
    EACH_VALUE(COMPLETES)
#endif
    IN_VIEW(1)
    IN_VIEW(2)
#if VIEWS == 4
    IN_VIEW(3)
#endif
    CRASHES
    od;
end_completed:
    do
    CRASHES
    od;
gone:
    skip
}

#if STEPS > 1
/* A later step begins: its messages are yet to come. Who left the run can do nothing in it. */
inline begin_step() {
    k = 0;
    do
    :: k < N ->
        if :: HONEST(k) && SELF_OPENS(k) -> selfsOpen = selfsOpen | (1 << k) :: else fi;
        if :: HONEST(k) && KEY_OPENS(k) -> keysOpen = keysOpen | (1 << k) :: else fi;
        k++
    :: else -> break
    od;
    step++;
    offset = LATER;
    k = 0;
    do
    :: k < N - LIARS && HAS(members, k) -> forget(k); checkTo[AT(0, k)] = 15; k++
    :: k < N - LIARS ->
        forget(k); members = members & ~(1 << k); view[k] = VIEWS; accepted[k] = 0; times[k] = 9; k++
    :: else -> break
    od;
    k = 0;
    do
    :: k < VIEWS -> proposal[k] = 0; proposalTo[k] = 0; k++
    :: else -> break
    od;
    k = 0
}

inline forget(j) {
    view[j] = 0; accepted[j] = 1; lock[j] = 0; times[j] = 0;
    acks[j] = 0; ackTo[j] = 0; releases[j] = 0; releaseTo[j] = 0;
    checkTo[AT(0, j)] = 0; checkTo[AT(1, j)] = 0; checkTo[AT(2, j)] = 0; checkTo[AT(3, j)] = 0;
    checkTo[AT(4, j)] = 0;
    vote[AT(0, j)] = 0; vote[AT(1, j)] = 0; vote[AT(2, j)] = 0;
    voteTo[AT(0, j)] = 0; voteTo[AT(1, j)] = 0; voteTo[AT(2, j)] = 0
}

#define HAS_RESULT(w) || RESULT(w)
proctype Run() {
    byte i, k;
end_of_run:
    do
    :: atomic { step < STEPS && (false EACH_VALUE(HAS_RESULT)) -> begin_step() }
    od
}
#endif

init {
    atomic {
        byte j = 0;
        do
        :: j < N - LIARS -> checkTo[AT(0, j)] = 15; j++
        :: else -> break
        od;
        j = 0;
        do
        :: j < N - LIARS -> run Member(j); j++
        :: else -> break
        od;
#if STEPS > 1
        run Run();
#endif
    }
}
