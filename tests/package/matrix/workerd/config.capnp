using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "app", worker = (
      modules = [(name = "worker", esModule = embed "out/worker.js")],
      compatibilityDate = "2026-05-01",
      bindings = [(name = "app", service = "app")],
    )),
    (name = "internet", network = (allow = ["private"])),
  ],
);
