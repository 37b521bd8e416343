//! `libinfiniccl_net_tcp.so`: the plugin of `infiniccl-plugin-net-tcp` for programs that load it by path.

infiniccl_plugin_api::export_plugin!(infiniccl_plugin_net_tcp::plugin_root);
