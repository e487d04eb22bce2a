//! Planted bugs: known mistakes, each behind one line at the place where it would be made, so that the simulator can show
//! that it finds them.
//!
//! Without the feature `plants` [`planted`] is `false` at compile time and nothing of a plant is left in the build; a
//! gateway does not compile with it ([`COMPILED_IN`]). With it, a plant is active only in the thread that asked for it.
//!
//! Not here: looking for them (the simulator). Upholds no invariant: every plant breaks one.

/// Whether plants are in this build at all.
pub const COMPILED_IN: bool = cfg!(feature = "plants");

macro_rules! plants {
    ($($plant:ident, $name:literal, $within:literal, $story:literal;)*) => {
        /// A bug that can be planted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Plant {
            $(#[doc = $story] $plant,)*
        }

        impl Plant {
            /// Every plant.
            pub const ALL: &[Self] = &[$(Self::$plant,)*];

            /// What it is called on the command line and in tables.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$plant => $name,)*
                }
            }

            /// What is wrong, and what breaks.
            #[must_use]
            pub const fn story(self) -> &'static str {
                match self {
                    $(Self::$plant => $story,)*
                }
            }

            /// How many seeds, tried in order from 0, the simulator may need to find it.
            #[must_use]
            pub const fn within(self) -> u64 {
                match self {
                    $(Self::$plant => $within,)*
                }
            }
        }
    };
}

plants! {
    FloorOutlivesIncarnation, "floor-outlives-incarnation", 20,
        "P1 off: the floor of a worker's holders survives a higher incarnation, so the order of two ops shows";
    CapacityOutlivesIncarnation, "capacity-outlives-incarnation", 160,
        "P1 off: the smallest capacity anybody read of a worker bounds its later lives as well";
    PathsByAlias, "paths-by-alias", 30,
        "P2 off: a run is found by its first 64-bit hash whatever path leads to it, so two chains become one";
    DirtyAtSessionEnd, "dirty-at-session-end", 60,
        "P4 off: a replica calls itself dirty only when a session ends, not from its first merged piece";
    AbortForgetsTargets, "abort-forgets-targets", 80,
        "P4 off: an aborted session's targets are forgotten although its pieces were merged";
    PieceWithoutTarget, "piece-without-target", 60,
        "P5 off: a dirty donor's pieces carry its vector but not its own target, so the receiver believes it is clean";
    NeverRestates, "never-restates", 20,
        "P6 off: a replica that holds effects of ops lost with their writers waits for them for ever";
    MedianWithoutSelf, "median-without-self", 170,
        "P11 off: the clock median leaves one's own reading out, so one slow gateway silences healthy ones";
    BehindIsSilent, "behind-is-silent", 20,
        "P11 off: a gateway whose clock is behind publishes nothing, as if it were ahead";
    LateProbeBelieved, "late-probe-believed", 20,
        "P12 off: a probe that began before the incarnation was adopted may raise it with the dead engine's token";
    CutTiesByArrival, "cut-ties-by-arrival", 20,
        "of touches of one millisecond the cut drops the one that came first, not the one of the lowest stamp";
    StampWithoutLife, "stamp-without-life", 20,
        "stamps are told apart by clock reading alone: of two lives' touches with one reading the first to come stays";
    CapacityGrows, "capacity-grows", 60,
        "capacity may grow within an incarnation: the last reading to arrive counts, not the smallest";
    FutureClamped, "future-clamped", 40,
        "an op from beyond the clock's tolerance is applied at once with its stamp clamped, instead of being held";
    HeldCounted, "held-counted", 40,
        "ops held for the clock are counted in the vector, so that they are taken for applied when their time comes";
    FutureSliceAccepted, "future-slice-accepted", 20,
        "rule (c) off: repair brings in stamps and floors from beyond the local clock's tolerance";
    AdoptsVEnd, "adopts-v-end", 30,
        "a session ends by adopting the donor's vector at its end, so ops that came to the donor meanwhile are lost";
    AdvertisesWhileDirty, "advertises-while-dirty", 20,
        "a dirty replica calls itself clean in exchanges and advertises its digest";
    ChainsFreedEarly, "chains-freed-early", 20,
        "retained ops do not keep the chains they name, so a pull cannot hand them on";
    TokenByOrder, "token-by-order", 20,
        "engine tokens are compared by order, as if they were start times: a restart under a smaller one goes unnoticed";
    TokenTieByArrival, "token-tie-by-arrival", 80,
        "of two incarnations with one counter the first to arrive stays, not the one of the larger token";
    MetaDroppedInRepair, "meta-dropped-in-repair", 20,
        "repair slices carry a worker's incarnation but drop what is known of it besides";
    FloorDroppedInRepair, "floor-dropped-in-repair", 20,
        "repair slices leave floors out, so late ops bring back what was retired";
    DigestSkipsFloor, "digest-skips-floor", 60,
        "a holder's digest leaves its floor out, so states that differ in it alone look equal";
    LogUnbounded, "log-unbounded", 20,
        "retained ops are dropped by age alone, never for their bytes";
    DeadLoadsCount, "dead-loads-count", 20,
        "load registers of gateways that are gone still count";
    LoadsDropped, "loads-dropped", 20,
        "load registers are never sent: every gateway balances by what it sent itself";
    LoadLostForGood, "load-lost-for-good", 20,
        "a lost load frame is not sent again";
    ForkUnnoticed, "fork-unnoticed", 330,
        "the running hash of a log is not looked at, so two logs that go by one name are mixed";
    LogJumpKeepsOps, "log-jump-keeps-ops", 240,
        "a session moves a log's head but keeps the retained ops before the jump, under wrong numbers";
    PullDropsMiddle, "pull-drops-middle", 20,
        "an answer to a pull leaves out an op in its middle and numbers the rest on";
    TrimmedUnsaid, "trimmed-unsaid", 20,
        "a pull for what is no longer retained gets no answer, so nobody starts a session";
    WalkSkipsHolders, "walk-skips-holders", 50,
        "a repair walk that paused inside a holder goes on with the next worker and skips the holders between";
    ExpiryAboveStamp, "expiry-above-stamp", 30,
        "an idle expiry's floor lies above the op's own stamp";
    StepBackIgnored, "step-back-ignored", 40,
        "rule (d) off: after its clock stepped back a gateway goes on stamping from its old, fast clock";
    AheadPublishes, "ahead-publishes", 20,
        "rule (a) off: a gateway whose clock is ahead of the mesh goes on publishing";
    ClockNotMerged, "clock-not-merged", 700,
        "applying an op does not move the own logical clock past its stamp, so a later op may rank below it";
    StampsBeforeJoining, "stamps-before-joining", 20,
        "rule (e) off: a newcomer publishes before it has merged a peer's reading";
    DeadIncarnationApplied, "dead-incarnation-applied", 20,
        "an op of an older incarnation is applied to the cache's present life";
    TouchIgnoresFloor, "touch-ignores-floor", 150,
        "a late touch brings back blocks at or below the floor";
    VectorJumpsBack, "vector-jumps-back", 20,
        "the vector adopted at a session's end replaces the own one even where that is further";
    SentIsAcked, "sent-is-acked", 30,
        "what an exchange told counts as known by the peer though the frame may be lost";
    IndexKeepsCut, "index-keeps-cut", 20,
        "the read index goes on answering the whole of a run whose tail was cut off";
    ClosingSkipped, "closing-skipped", 700,
        "P7 off: a life is retired as far as its retirer has its log, whatever others still apply of it";
    RetiredUntold, "retired-untold", 87,
        "P9 off: a session says nothing of retired lives, so who missed a retirement counts the life for ever";
    MinorityRetires, "minority-retires", 240,
        "P10 off: each side of a long partition retires the other, and both begin anew when they meet";
    PrunedByTimer, "pruned-by-timer", 30,
        "each replica forgets retired lives when its own timer says so, not by an op";
    PublishesAtSelection, "publishes-at-selection", 20,
        "a placement is published when its worker is chosen, so a request the worker refuses leaves a phantom";
    VerdictIgnoresSilence, "verdict-ignores-silence", 240,
        "a connected peer that fell silent still counts as fine, so the dashboard stays green while a gateway is cut off";
    FeedGapApplied, "feed-gap-applied", 60,
        "an op of a feed is applied although the one before it is missing: the state is none the engine was ever in";
    FeedOpImpure, "feed-op-impure", 60,
        "P3 off: what an op of a feed says depends on the gateway that made it, so two publishers differ at one position";
    RaisedContinues, "raised-continues", 60,
        "R11 off: an ingester goes on counting when an incarnation is raised by force, so nobody says again what is held";
    SummaryWhileDirty, "summary-while-dirty", 20,
        "a dirty replica's summary carries a digest, so pages show a state that its vector does not describe";
}

/// Whether the bug is planted here: never, in a build without the feature `plants`.
#[cfg(not(feature = "plants"))]
#[inline]
#[must_use]
pub const fn planted(_: Plant) -> bool {
    false
}

#[cfg(feature = "plants")]
pub use active::planted;

#[cfg(feature = "plants")]
mod active {
    use std::cell::Cell;

    use super::Plant;

    thread_local! {
        static ACTIVE: Cell<Option<Plant>> = const { Cell::new(None) };
    }

    /// Whether the bug is planted in this thread.
    #[inline]
    #[must_use]
    pub fn planted(plant: Plant) -> bool {
        ACTIVE.get() == Some(plant)
    }

    /// Takes the plant out when dropped, also when what ran with it panicked.
    struct Removal(Option<Plant>);

    impl Drop for Removal {
        fn drop(&mut self) {
            ACTIVE.set(self.0);
        }
    }

    impl Plant {
        /// Runs `then` with this bug planted in the current thread.
        pub fn with<T>(self, then: impl FnOnce() -> T) -> T {
            let _removal = Removal(ACTIVE.replace(Some(self)));
            then()
        }

        /// The plant of that name.
        #[must_use]
        pub fn named(name: &str) -> Option<Self> {
            Self::ALL.iter().copied().find(|plant| plant.name() == name)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_bounds_are_within_reason() {
        let names: BTreeSet<_> = Plant::ALL.iter().map(|plant| plant.name()).collect();
        assert_eq!(names.len(), Plant::ALL.len());
        assert!(Plant::ALL.iter().all(|plant| (1..=1_000).contains(&plant.within())));
    }

    #[cfg(not(feature = "plants"))]
    #[test]
    fn nothing_is_planted_in_a_build_without_the_feature() {
        const { assert!(!COMPILED_IN) };
        assert!(!Plant::ALL.iter().any(|plant| planted(*plant)));
    }

    #[cfg(feature = "plants")]
    #[test]
    fn a_plant_is_active_in_its_own_thread_and_gone_after_a_panic() {
        let plant = Plant::CapacityGrows;
        plant.with(|| {
            assert!(planted(plant) && !planted(Plant::NeverRestates));
            std::thread::scope(|scope| scope.spawn(|| assert!(!planted(plant))).join()).expect("no plant there");
        });
        assert!(std::panic::catch_unwind(|| plant.with(|| panic!("a planted bug's own"))).is_err());
        assert!(!planted(plant));
    }
}
