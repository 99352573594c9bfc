// @kubernetes/client-node: node node_client.mjs KUBECONFIG NAMESPACE, in the folder where it is installed.
import { PassThrough } from "node:stream";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [kubeconfig, namespace] = process.argv.slice(2);
const require = createRequire(process.cwd() + "/");
const k8s = await import(pathToFileURL(require.resolve("@kubernetes/client-node")).href);
const config = new k8s.KubeConfig();
config.loadFromFile(kubeconfig);
const core = config.makeApiClient(k8s.CoreV1Api);
const batch = config.makeApiClient(k8s.BatchV1Api);

class Wrong extends Error {}
const check = (holds, said) => { if (!holds) throw new Wrong(said); };
const report = (step, result, said = "") =>
  console.log(JSON.stringify({ step, result, said: String(said).replace(/\s+/g, " ").slice(0, 400) }));

async function step(name, action) {
  let timer;
  const late = new Promise((_, no) => { timer = setTimeout(() => no(new Error("no answer in 30 s")), 30000); });
  try {
    await Promise.race([action(), late]);
    report(name, "works");
  } catch (error) {
    const text = `${error?.message ?? error} ${typeof error?.body === "string" ? error.body : ""}`;
    report(name, error instanceof Wrong ? "wrong" : text.includes("not emulated") ? "refused by name" : "refused", text);
  } finally {
    clearTimeout(timer);
  }
}

const pod = {
  metadata: { name: "p" },
  spec: { containers: [{ name: "c", image: "busybox:1.36", command: ["sleep", "3600"] }] },
};

async function watched() {
  const watch = new k8s.Watch(config);
  await new Promise((yes, no) => {
    watch.watch(`/api/v1/namespaces/${namespace}/pods`, {}, (type, found) => {
      const ready = (found.status?.conditions ?? []).some((item) => item.type === "Ready" && item.status === "True");
      if (ready) yes();
    }, (error) => no(error ?? new Wrong("the watch ended before the pod was ready")));
  });
}

async function run() {
  const out = new PassThrough();
  let said = "";
  out.on("data", (data) => { said += data; });
  const exec = new k8s.Exec(config);
  await new Promise((yes, no) => {
    exec.exec(namespace, "p", "c", ["echo", "hi"], out, null, null, false, yes).catch(no);
  });
  check(said.trim() === "hi", JSON.stringify(said));
}

await step("create", () => core.createNamespace({ body: { metadata: { name: namespace } } }));
await step("create a pod", () => core.createNamespacedPod({ namespace, body: pod }));
await step("watch until ready", watched);
await step("list", async () => check((await core.listNamespacedPod({ namespace })).items.length === 1, "not one pod"));
await step("exec", run);
await step("logs", () => core.readNamespacedPodLog({ name: "p", namespace }));
await step("list jobs", async () => check((await batch.listNamespacedJob({ namespace })).items.length === 0, "jobs"));
const template = { spec: { restartPolicy: "Never", containers: pod.spec.containers } };
await step("create a job", () =>
  batch.createNamespacedJob({ namespace, body: { metadata: { name: "j" }, spec: { template } } }));
await step("port-forward", () =>
  new k8s.PortForward(config).portForward(namespace, "p", [80], new PassThrough(), null, new PassThrough()));
await step("delete the namespace", () => core.deleteNamespace({ name: namespace }));
process.exit(0);
