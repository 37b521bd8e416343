//! Which way is taken for which collective and size, as tables: a change of the planner is a change of
//! `golden.txt`. `INFINICCL_BLESS=1` writes it anew.

use super::worlds::{CHUNK, Layout, Random, Seat, lacks, topology, world};
use crate::call::{Collective, RedOp, Request};
use crate::plan::choose::choose;
use crate::plan::{Vector, World};
use infiniccl_plugin_api as abi;
use infiniccl_reduce::{DataType, ReduceOp};
use std::fmt::Write;

const EXPECTED: &str = include_str!("golden.txt");
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/plan/tests/golden.txt");

fn nodes(sizes: &[usize]) -> World {
    let seats: Vec<Seat> = (0..)
        .zip(sizes)
        .flat_map(|(n, size)| vec![Seat::on(n); *size])
        .collect();
    world(topology(&seats), CHUNK)
}

fn seats(count: usize, seat: impl Fn(usize) -> Seat) -> World {
    world(topology(&(0..count).map(seat).collect::<Vec<_>>()), CHUNK)
}

fn without(mut world: World, island: usize, what: &[(abi::Collective, Option<abi::RedOp>)]) -> World {
    what.iter()
        .for_each(|(collective, op)| lacks(&mut world, island, *collective, *op));
    world
}

fn worlds() -> Vec<(&'static str, World)> {
    use abi::{Collective as C, RedOp as R};
    let vendors = |rank: usize| Seat {
        vendor: ["a", "b", "c", "d"][rank % 4],
        ..Seat::on(0)
    };
    let alone = |nodes: usize| {
        move |rank: usize| Seat {
            island: "",
            ..Seat::on(rank % nodes)
        }
    };
    let reductions = [C::ALL_REDUCE, C::REDUCE, C::REDUCE_SCATTER];
    let no = |op| reductions.map(|c| (c, Some(op)));
    let mixed = |rank: usize| Seat {
        vendor: ["a", "b"][rank % 2],
        ..Seat::on(rank)
    };
    let mut none = nodes(&[4, 4]);
    none.capabilities[1].rows.clear();
    vec![
        ("1 node of 8", nodes(&[8])),
        ("2 nodes of 1", nodes(&[1, 1])),
        ("2 nodes of 4", nodes(&[4, 4])),
        ("2 nodes of 8", nodes(&[8, 8])),
        ("2 nodes, 3 and 5", nodes(&[3, 5])),
        (
            "3 nodes, dealt in turn",
            world(Layout::Interleaved.topology(8, &mut Random(0)), CHUNK),
        ),
        ("4 nodes of 4", nodes(&[4, 4, 4, 4])),
        ("16 nodes of 8", nodes(&[8; 16])),
        ("8 ranks of 4 vendors on 1 node", seats(8, vendors)),
        (
            "1 node of 8, whose library has no AVG",
            without(nodes(&[8]), 0, &no(R::AVG)),
        ),
        (
            "2 nodes of 4, one library has no REDUCE",
            without(nodes(&[4, 4]), 1, &[(C::REDUCE, None)]),
        ),
        (
            "2 nodes of 4, one library has no PREMUL_SUM",
            without(nodes(&[4, 4]), 1, &no(R::PREMUL_SUM)),
        ),
        ("2 nodes of 4, one has no library", none),
        ("8 nodes of 1", seats(8, alone(8))),
        ("2 nodes of 4 ranks without a library", seats(8, alone(2))),
        ("8 nodes of 1, of 2 arithmetics", seats(8, mixed)),
    ]
}

/// What is asked for; the first row of a collective is a sum of float32.
fn requests() -> Vec<(Collective, DataType, RedOp)> {
    let sum = RedOp::Fixed(ReduceOp::Sum);
    let avg = RedOp::Fixed(ReduceOp::Avg);
    let plain = Collective::ALL.iter().filter(|c| !c.is_message());
    let mut requests: Vec<_> = plain.map(|c| (*c, DataType::Float32, sum)).collect();
    for collective in [Collective::AllReduce, Collective::ReduceScatter] {
        requests.extend([
            (collective, DataType::Float32, avg),
            (collective, DataType::Float8E4M3, avg),
            (collective, DataType::Int8, avg),
            (collective, DataType::Float32, RedOp::PreMulSum { scalar_bits: 1 }),
        ]);
    }
    requests
}

/// Sizes from which another way is taken, on a grid of powers of two.
fn row(world: &World, (collective, dtype, op): (Collective, DataType, RedOp)) -> String {
    let mut row = String::new();
    let mut last = String::new();
    for power in 3..=28u32 {
        let count = (1u64 << power) / dtype.size() as u64;
        let request = Request {
            collective,
            dtype,
            op,
            count,
            root: 0,
        };
        let counts = vec![count; world.size() as usize];
        let vector = Vector {
            send_counts: counts.clone(),
            recv_counts: counts,
            ..Vector::default()
        };
        let taken = choose(world, &request, Some(&vector))
            .unwrap()
            .algorithm
            .to_string();
        if taken != last {
            let size = match power {
                3..10 => format!("{}", 1 << power),
                10..20 => format!("{}K", 1 << (power - 10)),
                _ => format!("{}M", 1 << (power - 20)),
            };
            let comma = if row.is_empty() { "" } else { ", " };
            write!(row, "{comma}{size} {taken}").unwrap();
            last = taken;
        }
    }
    row
}

fn table() -> String {
    let mut text = String::from(
        "Way by size in bytes, as NCCL counts them; `8 a, 1K b`: a from 8 bytes on, b from 1 KiB on.\n",
    );
    for (name, world) in worlds() {
        writeln!(text, "\n{name}").unwrap();
        for request in requests() {
            let (collective, dtype, op) = request;
            let what = match collective.reduces() {
                true => format!("{collective} {} {dtype}", op.name()),
                false => collective.to_string(),
            };
            writeln!(text, "  {what:<36} {}", row(&world, request)).unwrap();
        }
    }
    text
}

#[test]
fn choices_are_those_of_the_table() {
    let table = table();
    if std::env::var_os("INFINICCL_BLESS").is_some() {
        std::fs::write(FILE, &table).unwrap();
        return;
    }
    let length = |text: &str| text.lines().count();
    assert_eq!(length(&table), length(EXPECTED), "lines of golden.txt");
    for (number, (got, expected)) in table.lines().zip(EXPECTED.lines()).enumerate() {
        assert_eq!(got, expected, "golden.txt:{}", number + 1);
    }
}

#[test]
fn choices_are_sane() {
    let taken = |world: &World, collective, bytes: u64| {
        let request = Request {
            collective,
            dtype: DataType::Float32,
            op: RedOp::Fixed(ReduceOp::Sum),
            count: bytes / 4,
            root: 0,
        };
        choose(world, &request, None).unwrap().algorithm.name()
    };
    let sizes = || (3..=28).map(|power| 1u64 << power);
    let pair = nodes(&[1, 1]);
    for bytes in sizes() {
        let way = taken(&pair, Collective::AllReduce, bytes);
        match bytes {
            ..=65536 => assert_eq!(way, "recursive_doubling", "{bytes}"),
            1_048_576.. => assert_eq!(way, "ring", "{bytes}"),
            _ => {}
        }
        for collective in Collective::ALL.iter().filter(|c| !c.is_message()) {
            let one = taken(&nodes(&[8]), *collective, bytes);
            assert_eq!(one, "vendor", "{collective} of {bytes} bytes");
        }
    }
    assert_eq!(
        taken(&nodes(&[8, 8]), Collective::AllReduce, 1 << 20),
        "hierarchical"
    );
    let (_, mixed) = worlds().pop().unwrap();
    assert!(!mixed.topology.one_arithmetic());
    assert!(sizes().all(|bytes| taken(&mixed, Collective::AllReduce, bytes) != "recursive_doubling"));
}
