//! `infiniccl info`: plugins and why some are not in use, devices, interfaces, versions, the values in force.

use std::process::ExitCode;

use clap::Args;
use infiniccl::Context;
use infiniccl::plugin::PluginStatus;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::settings::ConfigArg;
use crate::table::{Align, lines};

/// Show plugins, devices, network interfaces and versions; with --config and no file, the values in force
#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Prints what is known of this machine.
pub(crate) fn run(args: &InfoArgs, config: &ConfigArg) -> Result<ExitCode, Failure> {
    let context = config.context()?;
    let devices = devices(&context);
    if args.json {
        println!("{:#}", object(&context, &devices));
        return Ok(ExitCode::SUCCESS);
    }
    if config.asks_for_values() {
        values(&context).iter().for_each(|line| println!("{line}"));
        return Ok(ExitCode::SUCCESS);
    }
    let host = rustix::system::uname();
    println!(
        "infiniccl {} on {}",
        env!("CARGO_PKG_VERSION"),
        host.nodename().to_string_lossy()
    );
    println!("configuration: {}", context.config().origin());
    println!();
    plugins(&context).iter().for_each(|line| println!("{line}"));
    println!();
    for device in &devices {
        println!("{} device {}: {}", device.plugin, device.index, device.words());
    }
    Ok(ExitCode::SUCCESS)
}

/// A device of a plugin: a card, or a network interface.
struct Device {
    plugin: String,
    index: u32,
    attributes: infiniccl::Result<Vec<(String, String)>>,
}

impl Device {
    /// The attributes in words, or why they cannot be had.
    fn words(&self) -> String {
        match &self.attributes {
            Ok(pairs) => pairs
                .iter()
                .map(|(k, v)| format!("{k} {v}"))
                .collect::<Vec<_>>()
                .join(", "),
            Err(e) => e.to_string(),
        }
    }

    fn object(&self) -> Value {
        let (attributes, error) = match &self.attributes {
            Ok(pairs) => (pairs.iter().map(|(k, v)| (k.clone(), json!(v))).collect(), None),
            Err(e) => (serde_json::Map::new(), Some(e.to_string())),
        };
        json!({"plugin": self.plugin, "index": self.index, "attributes": attributes, "error": error})
    }
}

fn devices(context: &Context) -> Vec<Device> {
    let mut devices = Vec::new();
    for plugin in context.registry().vendors() {
        for index in 0..plugin.device_count().unwrap_or(0) {
            let attributes = plugin.device_attributes(index).map(|rows| rows.into_pairs());
            devices.push(Device {
                plugin: plugin.name().into(),
                index,
                attributes,
            });
        }
    }
    for plugin in context.registry().nets() {
        for index in 0..plugin.device_count().unwrap_or(0) {
            let attributes = plugin.device_attributes(index).map(|rows| rows.into_pairs());
            devices.push(Device {
                plugin: plugin.name().into(),
                index,
                attributes,
            });
        }
    }
    devices
}

fn plugins(context: &Context) -> Vec<String> {
    let mut table = vec![
        ["plugin", "kind", "version", "abi", "status", "devices", "place"]
            .map(String::from)
            .to_vec(),
    ];
    for row in context.registry().rows() {
        table.push(vec![
            row.name.clone(),
            row.kind_name().into(),
            row.version.clone(),
            row.abi.clone(),
            row.status.to_string(),
            row.devices.map_or(String::new(), |d| d.to_string()),
            row.place(),
        ]);
    }
    let mut out = lines(&[Align::Left; 7], &table);
    for row in context
        .registry()
        .rows()
        .iter()
        .filter(|r| r.status != PluginStatus::Loaded)
    {
        out.push(format!("{}: {}", row.name, row.reason));
    }
    out
}

fn values(context: &Context) -> Vec<String> {
    let row = |v: infiniccl::config::EffectiveValue| {
        let replaced = v
            .replaced
            .map(|r| format!(" (in place of {r})"))
            .unwrap_or_default();
        vec![v.key, v.value, format!("{}{replaced}", v.origin)]
    };
    let mut table = vec![["key", "value", "from"].map(String::from).to_vec()];
    table.extend(context.config().values().into_iter().map(row));
    lines(&[Align::Left; 3], &table)
}

fn object(context: &Context, devices: &[Device]) -> Value {
    let value = |v: infiniccl::config::EffectiveValue| {
        json!({"key": v.key, "value": v.value, "origin": v.origin.to_string(),
               "replaced": v.replaced.map(|r| r.to_string())})
    };
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "host": rustix::system::uname().nodename().to_string_lossy(),
        "config": context.config().origin().to_string(),
        "plugins": context.registry().rows(),
        "devices": devices.iter().map(Device::object).collect::<Vec<_>>(),
        "values": context.config().values().into_iter().map(value).collect::<Vec<_>>(),
    })
}
