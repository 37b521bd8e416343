//! Plugins that are linked into the program, collected at link time.

use infiniccl_plugin_api::PluginRootRef;

/// A plugin that is linked into the program.
///
/// A program adds its own with `inventory::submit! { infiniccl::plugin::Builtin { root: my_plugin::plugin_root } }`.
/// Where the configuration lists a file of the same plugin, the file is used instead.
#[derive(Debug, Clone, Copy)]
pub struct Builtin {
    /// The function that `declare_plugin!` made.
    pub root: fn() -> PluginRootRef,
}

inventory::collect!(Builtin);

#[cfg(feature = "builtin")]
inventory::submit! { Builtin { root: infiniccl_plugin_host::plugin_root } }
#[cfg(feature = "builtin")]
inventory::submit! { Builtin { root: infiniccl_plugin_net_tcp::plugin_root } }

/// The roots of all linked-in plugins, by name, so that their order does not depend on the linker.
pub(super) fn roots() -> Vec<PluginRootRef> {
    let mut roots: Vec<PluginRootRef> = inventory::iter::<Builtin>
        .into_iter()
        .map(|builtin| (builtin.root)())
        .collect();
    roots.sort_by(|a, b| a.name().as_str().cmp(b.name().as_str()));
    roots
}
