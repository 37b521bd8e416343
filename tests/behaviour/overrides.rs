//! What an operator says about a plugin's operations: emulated ones are right, refused ones move nothing.

use std::path::Path;

use crate::world::{LIMIT, World, right};
use infiniccl::ErrorKind;
use infiniccl::config::Config;
use infiniccl::{RedOp, ReduceOp};
use infiniccl_testkit::call::Placement;
use infiniccl_testkit::oracle::{Case, Collective, Dtype, Op, Values};

/// Three ranks, all or two of them on one node, whose configuration ends with `text`.
fn worlds(text: &str) -> impl Iterator<Item = World> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("infiniccl.toml");
    let limits = format!("[timeouts]\ncollective = {LIMIT}\n");
    std::fs::write(&file, limits + text).expect("the file can be written");
    let load = |file: &Path, node: u32| {
        let mut config = Config::load(Some(file)).expect("a valid file");
        config.job.node = Some(format!("node{node}"));
        config
    };
    let configs = [[0, 0, 0], [0, 1, 0]].map(|nodes| nodes.map(|node| load(&file, node)));
    configs.into_iter().map(|configs| World::of(configs.into_iter()))
}

fn case(collective: Collective, dtype: Dtype, op: Op) -> Case {
    Case {
        collective,
        dtype,
        op,
        count: 777,
        root: 1,
        ranks: 3,
        values: Values::Exact,
        salt: 5,
    }
}

#[test]
fn an_operation_that_is_emulated_by_order_is_as_right_as_the_native_one() {
    for world in worlds("[[override]]\nplugin = \"host\"\ncollective = \"*\"\naction = \"emulate\"\n") {
        world.run(|comm| {
            for &collective in Collective::ALL {
                for &dtype in Dtype::ALL {
                    for &op in Op::ALL.iter().filter(|op| dtype.supports(**op)) {
                        right(comm, case(collective, dtype, op), Placement::OutOfPlace);
                    }
                }
            }
        });
    }
}

#[test]
fn a_refused_operation_moves_nothing_and_the_others_go_on() {
    let text =
        "[[override]]\ncollective = \"all_reduce\"\ndtype = \"float16\"\nop = \"avg\"\naction = \"refuse\"\n";
    for world in worlds(text) {
        world.run(|comm| {
            let mut buffer = [half::f16::from_f32(comm.rank() as f32); 9];
            let before = buffer;
            let op: RedOp = ReduceOp::Avg.into();
            let error = comm
                .all_reduce_in_place(&mut buffer, op)
                .expect_err("it is refused");
            assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
            for part in ["all_reduce", "float16", "avg"] {
                assert!(error.to_string().contains(part), "{error}");
            }
            assert_eq!(buffer, before);
            right(
                comm,
                case(Collective::AllReduce, Dtype::Float16, Op::Sum),
                Placement::InPlace,
            );
            right(
                comm,
                case(Collective::AllReduce, Dtype::BFloat16, Op::Avg),
                Placement::InPlace,
            );
            right(
                comm,
                case(Collective::Reduce, Dtype::Float16, Op::Avg),
                Placement::InPlace,
            );
        });
    }
}
