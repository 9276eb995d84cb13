/**
 * The manifests of examples/nats, which are not run here: their command lines are those that the programs take, and
 * what one part names (services, ports, secrets, volumes, users, the queue) is what another part has.
 */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { parseWorker, type WorkerOptions } from "../../run/cli/workerOptions.ts";
import { presetFor } from "../../run/presets.ts";
import type { StartOptions } from "../../run/startOptions.ts";
import { addressOf } from "../../distribute/nats/connection.ts";
import { parseStart } from "../../run/node/commandLine.ts";

const read = (name: string): string => readFileSync(new URL(`../../examples/nats/${name}`, import.meta.url), "utf8");

interface Env {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: {
    readonly secretKeyRef?: { readonly name: string; readonly key: string };
    readonly fieldRef?: { readonly fieldPath: string };
  };
}
interface Container {
  readonly image: string;
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  readonly env: readonly Env[];
  readonly ports?: readonly { readonly name: string; readonly containerPort: number }[];
  readonly readinessProbe?: {
    readonly httpGet?: { readonly port: string };
    readonly exec?: { readonly command: readonly string[] };
  };
  readonly volumeMounts?: readonly { readonly name: string; readonly mountPath: string }[];
}
interface PodSpec {
  readonly containers: readonly [Container];
  readonly volumes?: readonly {
    readonly name: string;
    readonly configMap?: { readonly name: string };
    readonly persistentVolumeClaim?: { readonly claimName: string };
  }[];
}
interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly data?: Readonly<Record<string, string>>;
  readonly stringData?: Readonly<Record<string, string>>;
  readonly spec?: {
    readonly serviceName?: string;
    readonly replicas?: number;
    readonly selector?: Readonly<Record<string, unknown>>;
    readonly ports?: readonly { readonly port: number }[];
    readonly template?: { readonly metadata: { readonly labels: Readonly<Record<string, string>> }; spec: PodSpec };
    readonly volumeClaimTemplates?: readonly { readonly metadata: { readonly name: string } }[];
  };
}

/** The arguments of a command that starts one of the programs. */
function argumentsOf(program: "main" | "worker", command: readonly string[]): readonly string[] {
  expect(command.slice(0, 4)).toEqual(["node", "--import", "tsx", `run/cli/${program}.ts`]);
  return command.slice(4);
}
const workerOf = async (command: readonly string[]): Promise<WorkerOptions> => {
  const options = await parseWorker(argumentsOf("worker", command));
  if (options === "help") throw new Error("the manifest asks for help");
  return options;
};
const startOf = (command: readonly string[]): StartOptions => {
  const options = parseStart(argumentsOf("main", command));
  if (options === "help") throw new Error("the manifest asks for help");
  return options as StartOptions;
};

describe("kubernetes.yaml", async () => {
  const documents = parseAllDocuments(read("kubernetes.yaml"));
  const manifests = documents.map((document) => document.toJS() as Manifest);
  const find = (kind: string, name: string): Manifest => {
    const found = manifests.filter((one) => one.kind === kind && one.metadata.name === name);
    expect(found.map(({ metadata }) => metadata.name)).toEqual([name]);
    return found[0]!;
  };
  const pod = (kind: string, name: string): PodSpec => find(kind, name).spec!.template!.spec;
  const [nats, learner, worker] = [
    pod("StatefulSet", "nats").containers[0],
    pod("Job", "learner").containers[0],
    pod("Deployment", "worker").containers[0],
  ];
  const config = find("ConfigMap", "nats").data!["nats.conf"]!;
  const [start, resume] = ["--name", "--resume"].map((flag) => {
    const line = learner
      .args![0]!.replaceAll(/\\\n\s*/g, "")
      .split("\n")
      .find((text) => text.includes(`run/cli/main.ts ${flag}`))!;
    return startOf(line.trim().replace("exec ", "").split(" "));
  }) as [StartOptions, StartOptions];
  const plays = await workerOf([...worker.command!, ...worker.args!]);

  it("is whole, and has nothing else", () => {
    expect(documents.flatMap(({ errors, warnings }) => [...errors, ...warnings])).toEqual([]);
    expect(manifests.map(({ kind, metadata }) => `${kind} ${metadata.name}`)).toEqual([
      "Secret nats",
      "ConfigMap nats",
      "Service nats",
      "StatefulSet nats",
      "PersistentVolumeClaim runs",
      "Job learner",
      "Deployment worker",
    ]);
  });

  it("learner and workers meet at one queue of the service, at its port", () => {
    const addresses = [start.workers, plays.connection.server].map((url) => addressOf(String(url)));
    expect(addresses[0]).toEqual(addresses[1]);
    const { server, queue } = addresses[0]!;
    const [, host, port] = /^nats:\/\/(.*):(\d+)$/.exec(server)!;
    expect(find("Service", host!).spec!.ports!.map((own) => own.port)).toEqual([Number(port)]);
    expect(nats.ports!.find(({ name }) => name === "client")!.containerPort).toBe(Number(port));
    expect(config).toContain(`port: ${port}\n`);
    // The worker's rights are for this queue.
    const named = [...config.matchAll(/(\w+)[._](?:tickets|policy|weights|large|episodes|presence)\b/g)];
    expect(new Set(named.map(([, name]) => name!.split("_").at(-1)))).toEqual(new Set([queue]));
  });

  it("a run is made, and resumed where it was made, on a volume", () => {
    expect(presetFor(start).async).toEqual({ workers: start.workers, maxStaleness: start.maxStaleness });
    expect(resume.resume).toBe(`runs/${start.name}`);
    expect(learner.args![0]).toContain(`[ -e ${resume.resume}/config.json ]`);
    const [mount] = learner.volumeMounts!;
    expect(mount!.mountPath).toBe("/worldgrad/runs");
    const volume = pod("Job", "learner").volumes!.find(({ name }) => name === mount!.name)!;
    find("PersistentVolumeClaim", volume.persistentVolumeClaim!.claimName);
  });

  it("a service, a set and a deployment select their own pods", () => {
    const labels = (kind: string, name: string): unknown => find(kind, name).spec!.template!.metadata.labels;
    expect(find("Service", "nats").spec!.selector).toEqual(labels("StatefulSet", "nats"));
    expect(find("StatefulSet", "nats").spec!.serviceName).toBe("nats");
    for (const [kind, name] of [
      ["StatefulSet", "nats"],
      ["Deployment", "worker"],
    ] as const)
      expect(find(kind, name).spec!.selector!["matchLabels"]).toEqual(labels(kind, name));
    expect(find("Deployment", "worker").spec!.replicas).toBeGreaterThan(1);
  });

  it("passwords come from the secret, for users that the server knows", () => {
    const keys = Object.keys(find("Secret", "nats").stringData!);
    const secrets = new Map<string, string>();
    for (const { env } of [nats, learner, worker]) {
      for (const { name, valueFrom } of env) {
        const { secretKeyRef } = valueFrom ?? {};
        if (secretKeyRef === undefined) continue;
        expect([secretKeyRef.name, keys]).toEqual(["nats", expect.arrayContaining([secretKeyRef.key])]);
        secrets.set(name, secretKeyRef.key);
      }
    }
    const users = [...config.matchAll(/user: "(\w+)", password: \$(\w+)/g)].map(([, user, variable]) => [
      user,
      variable,
    ]);
    expect(users).toHaveLength(2);
    for (const [user, variable] of users) {
      const side = [learner, worker].find(({ env }) =>
        env.some((own) => own.name === "NATS_USER" && own.value === user),
      );
      const password = side!.env.find(({ name }) => name === "NATS_PASSWORD")!.valueFrom!.secretKeyRef!;
      expect(secrets.get(variable!)).toBe(password.key);
    }
  });

  it("everybody is ready when it is: the server answers, a worker is let in", () => {
    const port = nats.readinessProbe!.httpGet!.port;
    expect(config).toContain(`http_port: ${nats.ports!.find(({ name }) => name === port)!.containerPort}\n`);
    expect(worker.readinessProbe!.exec!.command).toEqual(["test", "-e", plays.ready]);
    const known = worker.env.map(({ name }) => name);
    expect([...worker.args!.join(" ").matchAll(/\$\((\w+)\)/g)].every((m) => known.includes(m[1]!))).toBe(true);
  });

  it("the server's configuration and its store are volumes", () => {
    const { volumes } = pod("StatefulSet", "nats");
    const [configured, data] = nats.volumeMounts!;
    expect(nats.args).toEqual(["-c", `${configured!.mountPath}/nats.conf`]);
    expect(volumes!.find(({ name }) => name === configured!.name)!.configMap!.name).toBe("nats");
    expect(config).toContain(`store_dir: "${data!.mountPath}"`);
    expect(find("StatefulSet", "nats").spec!.volumeClaimTemplates!.map(({ metadata }) => metadata.name)).toEqual([
      data!.name,
    ]);
  });
});

describe("compose.yaml", () => {
  interface Service {
    readonly command: readonly string[];
    readonly environment?: Readonly<Record<string, string>>;
    readonly volumes?: readonly string[];
    readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
    readonly healthcheck?: { readonly test: readonly string[] };
  }
  const { services, volumes } = parse(read("compose.yaml")) as {
    readonly services: Readonly<Record<"nats" | "learner" | "worker", Service>>;
    readonly volumes: Readonly<Record<string, unknown>>;
  };
  const { nats, learner, worker } = services;
  const flag = (name: string): string => nats.command[nats.command.indexOf(name) + 1]!;

  it("learner and workers meet at the server, and wait until it answers", async () => {
    const start = startOf(learner.command);
    expect(presetFor(start).async?.workers).toBe(start.workers);
    const address = addressOf((await workerOf(worker.command)).connection.server);
    expect(addressOf(String(start.workers))).toEqual(address);
    // A server's own port.
    expect(address.server).toBe("nats://nats:4222");
    for (const { depends_on: first } of [learner, worker])
      expect(first).toEqual({ nats: { condition: "service_healthy" } });
    expect(nats.healthcheck!.test.at(-1)).toContain(`:${flag("-m")}/`);
  });

  it("one user and one password, from the environment, and a volume for what is stored", () => {
    for (const { environment } of [learner, worker])
      expect(environment).toEqual({ NATS_USER: flag("--user"), NATS_PASSWORD: "${NATS_PASSWORD}" });
    expect(flag("--pass")).toMatch(/^\$\{NATS_PASSWORD:\?/);
    const [name, path] = nats.volumes![0]!.split(":");
    expect(Object.keys(volumes)).toEqual([name]);
    expect(flag("-sd")).toBe(path);
  });
});
