//! Which way ranks meet; whole worlds run in `tests/worlds.rs`.

use super::*;

fn wish_of(variables: &str, set: &[(&str, &str)]) -> Result<Way> {
    let all: Vec<(&str, &str)> = variables
        .split_whitespace()
        .map(|pair| pair.split_once('=').unwrap())
        .collect();
    let env = |name: &str| {
        all.iter()
            .find(|(n, _)| *n == name)
            .map(|(_, value)| (*value).to_owned())
    };
    let mut config = Config::built_in();
    set.iter()
        .for_each(|(key, value)| config.set(key, value).unwrap());
    let launch = detect(&env)?.unwrap();
    let settings = Settings::from_config(&config);
    let wish = Wish {
        launch: &launch,
        config: &config,
        settings: &settings,
        env: &env,
        deadline: Instant::now(),
    };
    let has_secret = secret(&config)?.is_some();
    choose(&wish, has_secret)
}

#[test]
fn the_first_way_that_is_there_is_taken() {
    let ompi = "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 PMIX_NAMESPACE=n PMIX_RANK=1";
    let root = [("job.root", "10.0.0.1:99"), ("job.secret", "s")];
    assert_eq!(wish_of(ompi, &[]).unwrap(), Way::Pmix);
    assert_eq!(
        wish_of(ompi, &root).unwrap(),
        Way::Root,
        "what the operator says comes first"
    );
    assert_eq!(wish_of("PMI_RANK=1 PMI_SIZE=4 PMI_FD=8", &[]).unwrap(), Way::Pmi);
    assert_eq!(
        wish_of("PMI_RANK=1 PMI_SIZE=4 PMI_PORT=h:1", &[]).unwrap(),
        Way::Pmi
    );
    assert_eq!(
        wish_of("RANK=1 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2", &[]).unwrap(),
        Way::File
    );
    assert_eq!(
        wish_of(
            "SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_STEP_ID=1 PMIX_NAMESPACE=n PMIX_RANK=1",
            &[]
        )
        .unwrap(),
        Way::Pmix
    );
    // A torchrun that mpirun started: the store counts torchruns, not ranks.
    let nested = "RANK=2 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 GROUP_RANK=1 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 \
                  PMIX_NAMESPACE=n PMIX_RANK=1";
    assert_eq!(wish_of(nested, &[]).unwrap_err().kind(), ErrorKind::InvalidUsage);
    assert_eq!(wish_of(nested, &root).unwrap(), Way::Root);
}

#[test]
fn no_way_is_an_error_that_names_what_to_set() {
    for env in [
        "RANK=1 WORLD_SIZE=4",
        "RANK=1 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2",
        "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4",
        "PMI_RANK=0 PMI_SIZE=4",
        "SLURM_PROCID=0 SLURM_NTASKS=4",
    ] {
        let error = wish_of(env, &[]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidUsage, "{env}");
        for name in ["INFINICCL_ROOT", "INFINICCL_SECRET", "of 4"] {
            assert!(error.message().contains(name), "{env}: {error}");
        }
    }
}

#[test]
fn a_root_without_a_secret_needs_an_explicit_choice() {
    let env = "RANK=1 WORLD_SIZE=4";
    let root = ("job.root", "10.0.0.1:99");
    let error = wish_of(env, &[root]).unwrap_err();
    assert!(
        error.message().contains("INFINICCL_SECRET_FILE") && error.message().contains("auth"),
        "{error}"
    );
    assert_eq!(wish_of(env, &[root, ("auth", "none")]).unwrap(), Way::Root);
}
