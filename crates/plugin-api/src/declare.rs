//! The macros that turn tables into a plugin: one for the root, one for the symbol of the shared library.

/// How this copy of plugin-api, and so the plugin around it, was built: compiler, target, profile.
pub const BUILD: &str = env!("INFINICCL_PLUGIN_BUILD");

/// Declares the plugin of this crate; stands once, at the crate's root.
///
/// It defines `pub fn plugin_root() -> PluginRootRef`, which is what a program that links the crate uses and what
/// [`crate::export_plugin!`] exports, and the poison flag that [`crate::guarded!`] uses. `vendor` and `net` are
/// constant tables; at least one is needed, and the plugin's kind follows from them.
///
/// [The crate's example](crate#how-to-write-a-plugin) shows it in use.
#[macro_export]
macro_rules! declare_plugin {
    (name: $name:expr, version: $version:expr, probe: $probe:expr, vendor: $vendor:expr, net: $net:expr $(,)?) => {
        $crate::declare_plugin!(@root $name, $version, $probe,
            $crate::PluginKind($crate::PluginKind::VENDOR.0 | $crate::PluginKind::NET.0),
            $crate::declare_plugin!(@table VendorTable VendorTableRef $vendor),
            $crate::declare_plugin!(@table NetTable NetTableRef $net));
    };
    (name: $name:expr, version: $version:expr, probe: $probe:expr, vendor: $vendor:expr $(,)?) => {
        $crate::declare_plugin!(@root $name, $version, $probe, $crate::PluginKind::VENDOR,
            $crate::declare_plugin!(@table VendorTable VendorTableRef $vendor), $crate::__private::ROption::RNone);
    };
    (name: $name:expr, version: $version:expr, probe: $probe:expr, net: $net:expr $(,)?) => {
        $crate::declare_plugin!(@root $name, $version, $probe, $crate::PluginKind::NET,
            $crate::__private::ROption::RNone, $crate::declare_plugin!(@table NetTable NetTableRef $net));
    };
    (@table $type:ident $reference:ident $value:expr) => {{
        const TABLE: &$crate::__private::WithMetadata<$crate::$type> =
            &$crate::__private::WithMetadata::new($value);
        $crate::__private::ROption::RSome($crate::$reference(TABLE.static_as_prefix()))
    }};
    (@root $name:expr, $version:expr, $probe:expr, $kind:expr, $vendor:expr, $net:expr) => {
        #[doc(hidden)]
        pub static PLUGIN_POISON: $crate::Poison = $crate::Poison::new();

        /// The root of this plugin.
        pub fn plugin_root() -> $crate::PluginRootRef {
            const ROOT: &$crate::__private::WithMetadata<$crate::PluginRoot> =
                &$crate::__private::WithMetadata::new($crate::PluginRoot {
                    abi_major: $crate::ABI_MAJOR,
                    abi_minor: $crate::ABI_MINOR,
                    kind: $kind,
                    name: $crate::__private::RStr::from_str($name),
                    version: $crate::__private::RStr::from_str($version),
                    build: $crate::__private::RStr::from_str($crate::BUILD),
                    probe: $probe,
                    vendor: $vendor,
                    net: $net,
                });
            $crate::PluginRootRef(ROOT.static_as_prefix())
        }
    };
}

/// Exports a plugin from a shared library; the only line of a `cdylib` crate.
///
/// It stands in a crate of its own because compiled-in plugins are linked into one binary, where the symbol may
/// exist only once. `$root` is the `plugin_root` function of the plugin's crate:
/// `export_plugin!(infiniccl_plugin_host::plugin_root);`
#[macro_export]
macro_rules! export_plugin {
    ($root:path) => {
        #[doc(hidden)]
        #[allow(non_upper_case_globals)]
        // SAFETY: the name belongs to the plugin ABI; a shared library exports one plugin.
        #[unsafe(no_mangle)]
        pub static _1as_0lib_1header_0root_bmodule_bloader: $crate::__private::LibHeader = {
            extern "C" fn root() -> $crate::__private::RootModuleResult {
                $crate::__private::call_root(|| -> $crate::PluginRootRef { $root() })
            }
            // SAFETY: `root` answers with an erased `PluginRootRef`, which is the type named here.
            unsafe {
                $crate::__private::LibHeader::from_constructor::<$crate::PluginRootRef>(
                    root,
                    $crate::__private::CheckTypeLayout::Yes,
                )
            }
        };
    };
}

/// What the macros expand to; no part of the interface.
#[doc(hidden)]
pub mod __private {
    pub use abi_stable::library::{
        __call_root_module_loader as call_root, CheckTypeLayout, LibHeader, RootModuleResult,
    };
    pub use abi_stable::prefix_type::WithMetadata;
    pub use abi_stable::std_types::{ROption, RStr};
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_exported_name_is_the_one_that_the_loader_looks_for() {
        assert_eq!(
            abi_stable::library::ROOT_MODULE_LOADER_NAME,
            "_1as_0lib_1header_0root_bmodule_bloader"
        );
    }
}
