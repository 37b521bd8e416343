//! The root's questions to all ranks about one call, from the first report of a stall to the judgement. Pure state.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::arbitration::{Judgement, judge, unexplained};
use super::message::Answer;
use super::report::{Failure, LateReport};

/// How long the root waits for answers to one question.
const LIMIT: Duration = Duration::from_secs(1);
/// Reports of a stall are answered by a new question no more often than this.
const PAUSE: Duration = Duration::from_millis(500);
/// A digest that differed in a data message is asked about again after this,
const SUSPECT_AGAIN: Duration = Duration::from_millis(250);
/// and is a failure by itself when no record explains it for so long.
const UNEXPLAINED: Duration = Duration::from_secs(2);

/// What the root is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Ask every rank, itself included, what it called as `seq`.
    Ask { inquiry: u64, seq: u64 },
    /// The communicator failed.
    Failed(Failure),
    /// Those that came agree; tell everybody who is late.
    Late(LateReport),
}

struct Inquiry {
    id: u64,
    seq: u64,
    since: Instant,
    answers: BTreeMap<u32, Answer>,
}

/// A digest mismatch that a rank saw in the data of a peer.
struct Suspicion {
    seq: u64,
    rank: u32,
    peer: u32,
    since: Instant,
    asked: Instant,
}

/// The inquiries of one communicator's root.
pub(crate) struct Inquiries {
    size: u32,
    open: Option<Inquiry>,
    /// The earliest call that somebody reported while another one was asked about.
    next: Option<u64>,
    asked: u64,
    judged: Option<(u64, Instant)>,
    suspicion: Option<Suspicion>,
}

impl Inquiries {
    /// No inquiry yet.
    pub(crate) fn new(size: u32) -> Self {
        Inquiries {
            size,
            open: None,
            next: None,
            asked: 0,
            judged: None,
            suspicion: None,
        }
    }

    /// `rank` makes no progress in call `seq`, or (with `peer`) saw data of that call from `peer` with another digest.
    pub(crate) fn stalled(
        &mut self,
        rank: u32,
        seq: u64,
        peer: Option<u32>,
        now: Instant,
    ) -> Option<Outcome> {
        // Where ranks are out of step, the earliest call holds the cause.
        let earlier = self.suspicion.as_ref().is_none_or(|known| seq < known.seq);
        if let (Some(peer), true) = (peer, earlier) {
            self.suspicion = Some(Suspicion {
                seq,
                rank,
                peer,
                since: now,
                asked: now,
            });
        }
        let recently = self
            .judged
            .is_some_and(|(judged, at)| judged == seq && now < at + PAUSE);
        match &self.open {
            None => (peer.is_some() || !recently).then(|| self.ask(seq, now)),
            Some(open) => {
                if open.seq != seq {
                    self.next = Some(self.next.map_or(seq, |next| next.min(seq)));
                }
                None
            }
        }
    }

    fn ask(&mut self, seq: u64, now: Instant) -> Outcome {
        self.asked += 1;
        self.open = Some(Inquiry {
            id: self.asked,
            seq,
            since: now,
            answers: BTreeMap::new(),
        });
        Outcome::Ask {
            inquiry: self.asked,
            seq,
        }
    }

    /// Takes an answer; the last one brings the judgement.
    pub(crate) fn answered(
        &mut self,
        id: u64,
        rank: u32,
        answer: Answer,
        host: &dyn Fn(u32) -> String,
        now: Instant,
    ) -> Option<Outcome> {
        let inquiry = self.open.as_mut().filter(|inquiry| inquiry.id == id)?;
        inquiry.answers.insert(rank, answer);
        let complete = u32::try_from(inquiry.answers.len()) == Ok(self.size);
        complete.then(|| self.conclude(host, now)).flatten()
    }

    /// Judges when answers are overdue and asks again where a suspicion stands; returns also when to look again.
    pub(crate) fn tick(
        &mut self,
        host: &dyn Fn(u32) -> String,
        now: Instant,
    ) -> (Option<Outcome>, Option<Instant>) {
        if let Some(inquiry) = &self.open {
            let limit = inquiry.since + LIMIT;
            return if limit <= now {
                (self.conclude(host, now), Some(now))
            } else {
                (None, Some(limit))
            };
        }
        let Some(suspicion) = &mut self.suspicion else {
            return (None, None);
        };
        if suspicion.since + UNEXPLAINED <= now {
            let failure = unexplained(suspicion.seq, suspicion.rank, suspicion.peer, host);
            self.suspicion = None;
            return (Some(Outcome::Failed(failure)), None);
        }
        let again = suspicion.asked + SUSPECT_AGAIN;
        if again > now {
            return (None, Some(again));
        }
        suspicion.asked = now;
        let seq = suspicion.seq;
        (Some(self.ask(seq, now)), Some(now + LIMIT))
    }

    fn conclude(&mut self, host: &dyn Fn(u32) -> String, now: Instant) -> Option<Outcome> {
        let inquiry = self.open.take()?;
        self.judged = Some((inquiry.seq, now));
        Some(match judge(inquiry.seq, self.size, &inquiry.answers, host) {
            Judgement::Disagree(failure) => Outcome::Failed(failure),
            Judgement::Agree(report) => match self.next.take() {
                Some(seq) => self.ask(seq, now),
                None => Outcome::Late(report),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::report::CallRecord;

    fn called(digest: u32) -> Answer {
        Answer::Called(CallRecord {
            seq: 3,
            digest,
            text: format!("Broadcast count={digest}"),
            ..CallRecord::default()
        })
    }

    fn host(rank: u32) -> String {
        format!("h{rank}")
    }

    #[test]
    fn the_last_answer_brings_the_judgement() {
        let mut root = Inquiries::new(3);
        let now = Instant::now();
        assert_eq!(
            root.stalled(1, 3, None, now),
            Some(Outcome::Ask { inquiry: 1, seq: 3 })
        );
        assert_eq!(root.stalled(2, 3, None, now), None, "one inquiry at a time");
        assert_eq!(root.answered(1, 0, called(5), &host, now), None);
        assert_eq!(
            root.answered(9, 1, called(5), &host, now),
            None,
            "an answer to another question"
        );
        assert_eq!(root.answered(1, 1, called(5), &host, now), None);
        let Some(Outcome::Failed(failure)) = root.answered(1, 2, called(6), &host, now) else {
            panic!()
        };
        assert_eq!(failure.rank, Some(2));
    }

    #[test]
    fn a_later_call_does_not_keep_the_root_from_asking_about_an_earlier_one() {
        let mut root = Inquiries::new(2);
        let now = Instant::now();
        // Rank 1 refused call 3 and is in call 4, where it meets a message of rank 0, which is in call 3.
        assert!(root.stalled(1, 4, Some(0), now).is_some());
        assert_eq!(root.stalled(0, 3, None, now), None, "one inquiry at a time");
        let late = || Answer::NotYet {
            completed: 3,
            current: None,
        };
        root.answered(1, 0, late(), &host, now);
        assert_eq!(
            root.answered(1, 1, called(6), &host, now),
            Some(Outcome::Ask { inquiry: 2, seq: 3 })
        );
        root.answered(2, 0, called(5), &host, now);
        let refused = Answer::Called(CallRecord {
            seq: 3,
            refused: Some("recv".into()),
            ..CallRecord::default()
        });
        let Some(Outcome::Failed(failure)) = root.answered(2, 1, refused, &host, now) else {
            panic!("rank 1 refused its call")
        };
        assert_eq!(failure.rank, Some(1));
        // Nor does a verdict on the later one that was given just now.
        let mut root = Inquiries::new(2);
        root.stalled(1, 4, None, now);
        root.answered(1, 0, late(), &host, now);
        assert!(root.answered(1, 1, called(6), &host, now).is_some());
        assert_eq!(
            root.stalled(0, 3, None, now),
            Some(Outcome::Ask { inquiry: 2, seq: 3 })
        );
    }

    #[test]
    fn overdue_answers_count_as_late_and_questions_pause() {
        let mut root = Inquiries::new(2);
        let begun = Instant::now();
        root.stalled(0, 3, None, begun);
        root.answered(1, 0, called(5), &host, begun);
        let (outcome, due) = root.tick(&host, begun);
        assert_eq!((outcome, due), (None, Some(begun + LIMIT)));
        let (outcome, _) = root.tick(&host, begun + LIMIT);
        let Some(Outcome::Late(report)) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!((report.count, report.ranks[0].rank), (1, 1));
        assert_eq!(root.stalled(0, 3, None, begun + LIMIT), None, "asked just now");
        assert!(root.stalled(0, 3, None, begun + LIMIT + PAUSE).is_some());
    }

    #[test]
    fn a_suspicion_that_no_record_explains_names_both_ranks() {
        let mut root = Inquiries::new(2);
        let begun = Instant::now();
        assert!(root.stalled(1, 3, Some(0), begun).is_some());
        let mut now = begun;
        loop {
            for rank in 0..2 {
                let outcome = root.answered(root.asked, rank, called(5), &host, now);
                assert!(!matches!(outcome, Some(Outcome::Failed(_))));
            }
            let (outcome, due) = root.tick(&host, now);
            if let Some(Outcome::Failed(failure)) = outcome {
                assert!(failure.message.contains("rank 1 on h1") && failure.message.contains("rank 0 on h0"));
                break;
            }
            assert!(now < begun + UNEXPLAINED);
            now = due.unwrap().max(now + Duration::from_millis(10));
        }
    }
}
