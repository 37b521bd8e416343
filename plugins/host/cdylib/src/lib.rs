//! The host plugin as a shared library: `libinfiniccl_host.so`.

infiniccl_plugin_api::export_plugin!(infiniccl_plugin_host::plugin_root);
