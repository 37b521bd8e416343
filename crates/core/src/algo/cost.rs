//! What the algorithms cost on a link, in integers, so that all ranks compute the same.
//!
//! The formulas are those of the α-β-γ model (Hockney; Thakur, Rabenseifner and Gropp): n bytes, p members,
//! L = ⌈log2 p⌉. A result that does not fit is the largest u64.

/// What a message costs on the slowest link of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LinkCost {
    /// Time of a message without content, from the call to its end on the other side, in ns.
    pub(crate) alpha_ns: u64,
    /// Transfer time of a byte, in ps.
    pub(crate) beta_ps: u64,
    /// Time to combine a byte with another one, in ps.
    pub(crate) gamma_ps: u64,
    /// Time to post a message, which those to different peers do not share, in ns.
    pub(crate) overhead_ns: u64,
}

/// A sum of terms in ps.
#[derive(Clone, Copy)]
struct Terms(u128);

impl LinkCost {
    fn alphas(&self, n: u64) -> Terms {
        Terms((u128::from(n) * u128::from(self.alpha_ns)).saturating_mul(1000))
    }

    fn overheads(&self, n: u64) -> Terms {
        Terms((u128::from(n) * u128::from(self.overhead_ns)).saturating_mul(1000))
    }

    fn moved(&self, bytes: u128) -> Terms {
        Terms(bytes.saturating_mul(self.beta_ps.into()))
    }

    fn combined(&self, bytes: u128) -> Terms {
        Terms(bytes.saturating_mul(self.gamma_ps.into()))
    }

    /// Moving and combining at the same time.
    fn streamed(&self, bytes: u128) -> Terms {
        Terms(bytes.saturating_mul(self.beta_ps.max(self.gamma_ps).into()))
    }
}

impl std::ops::Add for Terms {
    type Output = Terms;

    fn add(self, other: Terms) -> Terms {
        Terms(self.0.saturating_add(other.0))
    }
}

impl Terms {
    fn ns(self) -> u64 {
        u64::try_from(self.0 / 1000).unwrap_or(u64::MAX)
    }
}

/// ⌈log2 p⌉.
fn levels(p: u64) -> u64 {
    u64::from(p.next_power_of_two().ilog2())
}

/// The largest power of two that is not above p, and its logarithm.
fn folded(p: u64) -> (u64, u64) {
    (1 << p.ilog2(), u64::from(p.ilog2()))
}

/// (p − 1)/p of n.
fn others(p: u64, n: u64) -> u128 {
    u128::from(n) * u128::from(p - 1) / u128::from(p)
}

/// What folding a group to a power of two adds to an allreduce.
fn fold(p: u64, n: u64, link: &LinkCost) -> Terms {
    if p.is_power_of_two() {
        return Terms(0);
    }
    link.alphas(2) + link.moved(2 * u128::from(n)) + link.combined(n.into())
}

/// ⌊log2 p⌋(α + nβ + nγ), and the fold.
pub(crate) fn allreduce_recursive_doubling(p: u64, n: u64, link: &LinkCost) -> u64 {
    let (_, rounds) = folded(p);
    let bytes = u128::from(n) * u128::from(rounds);
    (link.alphas(rounds) + link.moved(bytes) + link.combined(bytes) + fold(p, n, link)).ns()
}

/// 2·log2(q)·α + 2(q − 1)/q·nβ + (q − 1)/q·nγ, and the fold.
pub(crate) fn allreduce_rabenseifner(p: u64, n: u64, link: &LinkCost) -> u64 {
    let (q, rounds) = folded(p);
    let bytes = others(q, n);
    (link.alphas(2 * rounds) + link.moved(2 * bytes) + link.combined(bytes) + fold(p, n, link)).ns()
}

/// 2(p − 1)α + (p − 1)/p·n·(max(β, γ) + β), and the combination of the last chunk.
pub(crate) fn allreduce_ring(p: u64, n: u64, chunk: u64, link: &LinkCost) -> u64 {
    let bytes = others(p, n);
    (link.alphas(2 * (p - 1)) + link.streamed(bytes) + link.moved(bytes) + tail(p, n, chunk, link)).ns()
}

/// 2α + 2(p − 1)·o + 2(p − 1)/p·nβ + (p − 1)/p·nγ.
pub(crate) fn allreduce_direct(p: u64, n: u64, link: &LinkCost) -> u64 {
    let (bytes, hops) = (others(p, n), 2 * u64::from(p > 1));
    (link.alphas(hops) + link.overheads(2 * (p - 1)) + link.moved(2 * bytes) + link.combined(bytes)).ns()
}

/// 2L(α + 2cβ) + 2n·max(β, γ/2): on each level the two messages of a member follow each other, and their α overlap.
pub(crate) fn allreduce_double_tree(p: u64, n: u64, chunk: u64, link: &LinkCost) -> u64 {
    if p == 1 {
        return 0;
    }
    let (hops, bytes) = (2 * levels(p), 2 * u128::from(n));
    let fill = link.alphas(hops) + link.moved(u128::from(2 * hops) * u128::from(chunk.min(n / 2)));
    let flow = link.moved(bytes).0.max(link.combined(n.into()).0);
    (fill + Terms(flow)).ns()
}

/// (p − 1)α + (p − 1)/p·n·max(β, γ) for n bytes of input, and the combination of the last chunk.
pub(crate) fn reduce_scatter_ring(p: u64, n: u64, chunk: u64, link: &LinkCost) -> u64 {
    (link.alphas(p - 1) + link.streamed(others(p, n)) + tail(p, n, chunk, link)).ns()
}

/// α + (p − 1)·o + (p − 1)/p·n·(β + γ) for n bytes of input.
pub(crate) fn reduce_scatter_direct(p: u64, n: u64, link: &LinkCost) -> u64 {
    one_hop(p, others(p, n), others(p, n), link)
}

/// log2(q)·α + (q − 1)/q·n·(β + γ), and α + nβ + nγ before and α + n/p·β after in a folded group.
pub(crate) fn reduce_scatter_recursive_halving(p: u64, n: u64, link: &LinkCost) -> u64 {
    let (q, rounds) = folded(p);
    let bytes = others(q, n);
    let mut terms = link.alphas(rounds) + link.moved(bytes) + link.combined(bytes);
    if q < p {
        terms = terms + link.alphas(2) + link.moved(u128::from(n) + u128::from(n / p));
        terms = terms + link.combined(n.into());
    }
    terms.ns()
}

/// (p − 1)α + (p − 1)/p·nβ for n bytes of output.
pub(crate) fn all_gather_ring(p: u64, n: u64, link: &LinkCost) -> u64 {
    (link.alphas(p - 1) + link.moved(others(p, n))).ns()
}

/// ⌈log2 p⌉α + (p − 1)/p·nβ for n bytes of output, which are copied twice at the rate of a combination.
pub(crate) fn all_gather_bruck(p: u64, n: u64, link: &LinkCost) -> u64 {
    (link.alphas(levels(p)) + link.moved(others(p, n)) + link.combined(2 * others(p, n))).ns()
}

/// α + (p − 1)·o + (p − 1)/p·nβ for n bytes of output.
pub(crate) fn all_gather_direct(p: u64, n: u64, link: &LinkCost) -> u64 {
    one_hop(p, others(p, n), 0, link)
}

/// ⌈log2 p⌉(α + nβ) for one chunk; the others follow at the pace of the root, which sends each ⌈log2 p⌉ times.
pub(crate) fn broadcast_binomial(p: u64, n: u64, link: &LinkCost) -> u64 {
    (link.alphas(levels(p)) + link.moved(u128::from(n) * u128::from(levels(p)))).ns()
}

/// (p − 1)α + (p − 2)cβ + nβ, and o for each chunk: the α of chunks overlap, since sends do not wait.
pub(crate) fn broadcast_chain(p: u64, n: u64, chunk: u64, link: &LinkCost) -> u64 {
    let (chunks, bytes) = chain(p, n, chunk);
    (link.alphas(p - 1) + link.overheads(chunks) + link.moved(bytes)).ns()
}

/// (⌈log2 p⌉ + p − 1)α + 2(p − 1)/p·nβ.
pub(crate) fn broadcast_scatter_allgather(p: u64, n: u64, link: &LinkCost) -> u64 {
    (link.alphas(levels(p) + p - 1) + link.moved(2 * others(p, n))).ns()
}

/// ⌈log2 p⌉(α + nβ + nγ).
pub(crate) fn reduce_binomial(p: u64, n: u64, link: &LinkCost) -> u64 {
    let bytes = u128::from(n) * u128::from(levels(p));
    (link.alphas(levels(p)) + link.moved(bytes) + link.combined(bytes)).ns()
}

/// As [`broadcast_chain`] with max(β, γ) for β, and the combination of the last chunk.
pub(crate) fn reduce_chain(p: u64, n: u64, chunk: u64, link: &LinkCost) -> u64 {
    let (chunks, bytes) = chain(p, n, chunk);
    let last = if p == 1 { 0 } else { chunk.min(n) };
    let terms = link.alphas(p - 1) + link.overheads(chunks) + link.streamed(bytes);
    (terms + link.combined(last.into())).ns()
}

/// α + (p − 1)(o + nβ + nγ).
pub(crate) fn reduce_direct(p: u64, n: u64, link: &LinkCost) -> u64 {
    let bytes = u128::from(n) * u128::from(p - 1);
    one_hop(p, bytes, bytes, link)
}

/// pα + (p − 1)/p·n·(max(β, γ) + β), and the combination of the last chunk.
pub(crate) fn reduce_scatter_gather(p: u64, n: u64, chunk: u64, link: &LinkCost) -> u64 {
    let (bytes, hops) = (others(p, n), if p > 1 { p } else { 0 });
    (link.alphas(hops) + link.streamed(bytes) + link.moved(bytes) + tail(p, n, chunk, link)).ns()
}

/// α + (p − 1)·o + (p − 1)/p·nβ for n bytes at the root.
pub(crate) fn gather_linear(p: u64, n: u64, link: &LinkCost) -> u64 {
    one_hop(p, others(p, n), 0, link)
}

/// ⌈log2 p⌉α + (p − 1)/p·nβ for n bytes at the root, which are copied at the rate of a combination.
pub(crate) fn gather_binomial(p: u64, n: u64, link: &LinkCost) -> u64 {
    (link.alphas(levels(p)) + link.moved(others(p, n)) + link.combined(others(p, n))).ns()
}

/// As [`gather_linear`], the other way round.
pub(crate) fn scatter_linear(p: u64, n: u64, link: &LinkCost) -> u64 {
    gather_linear(p, n, link)
}

/// As [`gather_binomial`], the other way round.
pub(crate) fn scatter_binomial(p: u64, n: u64, link: &LinkCost) -> u64 {
    gather_binomial(p, n, link)
}

/// (p − 1)α/w + (p − 1)·o + (p − 1)/p·nβ for n bytes of each member and w messages under way.
pub(crate) fn all_to_all_pairwise(p: u64, n: u64, window: u64, link: &LinkCost) -> u64 {
    let waits = (p - 1).div_ceil(window.max(1));
    (link.alphas(waits) + link.overheads(p - 1) + link.moved(others(p, n))).ns()
}

/// ⌈log2 p⌉(α + nβ/2) for n bytes of each member, half of which are copied twice in each round at the rate of a
/// combination.
pub(crate) fn all_to_all_bruck(p: u64, n: u64, link: &LinkCost) -> u64 {
    let bytes = u128::from(n) * u128::from(levels(p));
    (link.alphas(levels(p)) + link.moved(bytes / 2) + link.combined(bytes)).ns()
}

/// ⌈log2 p⌉α.
pub(crate) fn barrier_dissemination(p: u64, link: &LinkCost) -> u64 {
    link.alphas(levels(p)).ns()
}

/// What is left to combine when the last chunk of a reduce-scatter has come.
fn tail(p: u64, n: u64, chunk: u64, link: &LinkCost) -> Terms {
    if p == 1 {
        return Terms(0);
    }
    link.combined(u128::from(chunk.min(n / p)))
}

/// The chunks that go through a chain of p members, and the bytes that pass before the last of them has come.
fn chain(p: u64, n: u64, chunk: u64) -> (u64, u128) {
    if p == 1 {
        return (0, 0);
    }
    let chunk = chunk.clamp(1, n.max(1));
    (
        n.div_ceil(chunk),
        u128::from(p - 2) * u128::from(chunk) + u128::from(n),
    )
}

/// Messages between a member and all others at once.
fn one_hop(p: u64, moved: u128, combined: u128, link: &LinkCost) -> u64 {
    let (hops, posts) = (u64::from(p > 1), p - 1);
    (link.alphas(hops) + link.overheads(posts) + link.moved(moved) + link.combined(combined)).ns()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn link(alpha_ns: u64, beta_ps: u64) -> LinkCost {
        LinkCost {
            alpha_ns,
            beta_ps,
            gamma_ps: 50,
            overhead_ns: alpha_ns / 4,
        }
    }

    /// The first size, on a grid of eighths of an octave, from which `b` is cheaper than `a`.
    fn crossover(a: impl Fn(u64) -> u64, b: impl Fn(u64) -> u64) -> u64 {
        let mut n = 64u64;
        while a(n) <= b(n) {
            n += n / 8;
            assert!(n < 1 << 36, "no crossover");
        }
        n
    }

    #[test]
    fn allreduce_crossovers_resemble_the_measured_model() {
        // (α ns, β ps/B), then for p = 4, 8, 16, 32 the bytes from which Rabenseifner and the ring win
        let table = [
            (
                7_000,
                300,
                [(66e3, 615e3), (52e3, 1.5e6), (42e3, 3.7e6), (33e3, 9e6)],
            ),
            (
                30_000,
                850,
                [(129e3, 2.3e6), (82e3, 5.7e6), (66e3, 17e6), (52e3, 34e6)],
            ),
            (
                20_000,
                100,
                [(393e3, 1.5e6), (315e3, 4.6e6), (252e3, 11e6), (201e3, 22e6)],
            ),
            (
                2_000,
                40,
                [(52e3, 393e3), (42e3, 1e6), (33e3, 1.9e6), (33e3, 4.6e6)],
            ),
        ];
        for (alpha, beta, rows) in table {
            let link = link(alpha, beta);
            for (p, (rabenseifner, ring)) in [4, 8, 16, 32].into_iter().zip(rows) {
                let rd = |n| allreduce_recursive_doubling(p, n, &link);
                let rab = |n| allreduce_rabenseifner(p, n, &link);
                let by_ring = |n| allreduce_ring(p, n, 128 << 10, &link);
                for (got, expected) in [
                    (crossover(rd, rab), rabenseifner),
                    (crossover(rab, by_ring), ring),
                ] {
                    let ratio = got as f64 / expected;
                    assert!(
                        (0.5..2.0).contains(&ratio),
                        "α={alpha} p={p}: {got} against {expected}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_ring_beats_folding_early() {
        let link = link(7_000, 300);
        for n in [1 << 10, 64 << 10, 1 << 20, 64 << 20] {
            assert!(allreduce_ring(3, n, 128 << 10, &link) <= allreduce_rabenseifner(3, n, &link) + 14_000);
        }
        let from = crossover(
            |n| allreduce_rabenseifner(6, n, &link),
            |n| allreduce_ring(6, n, 128 << 10, &link),
        );
        assert!((40_000..400_000).contains(&from), "{from}");
    }

    #[test]
    fn two_trees_beat_a_long_ring() {
        let link = link(7_000, 300);
        let (n, chunk) = (16 << 20, 128 << 10);
        assert!(allreduce_double_tree(4, n, chunk, &link) > allreduce_ring(4, n, chunk, &link));
        for p in [300, 1000, 10_000] {
            assert!(allreduce_double_tree(p, n, chunk, &link) < allreduce_ring(p, n, chunk, &link));
        }
        // Folding to a power of two costs a whole message more each way.
        assert!(allreduce_double_tree(300, n, chunk, &link) < allreduce_rabenseifner(300, n, &link));
    }

    #[test]
    fn trees_for_short_messages_and_pipelines_for_long_ones() {
        let link = link(7_000, 300);
        for p in [8, 16, 64] {
            let (short, long) = (1 << 10, 256 << 20);
            let chunk = 256 << 10;
            assert!(broadcast_binomial(p, short, &link) < broadcast_scatter_allgather(p, short, &link));
            assert!(broadcast_binomial(p, short, &link) < broadcast_chain(p, short, chunk, &link));
            assert!(broadcast_scatter_allgather(p, long, &link) < broadcast_binomial(p, long, &link));
            assert!(broadcast_chain(p, long, chunk, &link) < broadcast_scatter_allgather(p, long, &link));
            assert!(reduce_binomial(p, short, &link) < reduce_scatter_gather(p, short, chunk, &link));
            assert!(reduce_scatter_gather(p, long, chunk, &link) < reduce_binomial(p, long, &link));
            assert!(reduce_chain(p, long, chunk, &link) < reduce_binomial(p, long, &link));
            assert!(all_gather_bruck(p, short, &link) < all_gather_ring(p, short, &link));
            assert!(all_gather_ring(p, long, &link) < all_gather_bruck(p, long, &link));
            assert!(all_to_all_bruck(p, 8 * p, &link) < all_to_all_pairwise(p, 8 * p, 4, &link));
            assert!(all_to_all_pairwise(p, long, 4, &link) < all_to_all_bruck(p, long, &link));
            if p >= 16 {
                assert!(gather_binomial(p, short, &link) < gather_linear(p, short, &link));
            }
            assert!(gather_linear(p, long, &link) < gather_binomial(p, long, &link));
        }
    }

    #[test]
    fn one_rank_costs_nothing_and_nothing_overflows() {
        let slow = LinkCost {
            alpha_ns: u64::MAX,
            beta_ps: u64::MAX,
            gamma_ps: u64::MAX,
            overhead_ns: u64::MAX,
        };
        let all = |p: u64, n: u64, link: &LinkCost| {
            vec![
                allreduce_recursive_doubling(p, n, link),
                allreduce_rabenseifner(p, n, link),
                allreduce_ring(p, n, 1 << 20, link),
                allreduce_direct(p, n, link),
                allreduce_double_tree(p, n, 1 << 20, link),
                reduce_scatter_ring(p, n, 1 << 20, link),
                reduce_scatter_direct(p, n, link),
                reduce_scatter_recursive_halving(p, n, link),
                all_gather_ring(p, n, link),
                all_gather_bruck(p, n, link),
                all_gather_direct(p, n, link),
                broadcast_binomial(p, n, link),
                broadcast_chain(p, n, 1 << 20, link),
                broadcast_scatter_allgather(p, n, link),
                reduce_binomial(p, n, link),
                reduce_chain(p, n, 1 << 20, link),
                reduce_direct(p, n, link),
                reduce_scatter_gather(p, n, 1 << 20, link),
                gather_linear(p, n, link),
                gather_binomial(p, n, link),
                scatter_linear(p, n, link),
                scatter_binomial(p, n, link),
                all_to_all_pairwise(p, n, 4, link),
                all_to_all_bruck(p, n, link),
                barrier_dissemination(p, link),
            ]
        };
        assert!(all(1, 1 << 20, &slow).iter().all(|ns| *ns == 0));
        assert!(
            all(u32::MAX.into(), u64::MAX, &slow)
                .iter()
                .all(|ns| *ns == u64::MAX)
        );
        assert!(all(2, 0, &link(1000, 1)).iter().all(|ns| *ns > 0));
    }
}
