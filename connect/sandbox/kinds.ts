/**
 * The kinds of sandboxes: the user inside, the variables of its first command, and its files. Of the host each sees
 * /usr and two tables of /etc, to read.
 */
import { lstatSync, readdirSync, readlinkSync } from "node:fs";

/** The numbers of the descriptors that files of /etc are made of, and of the one that files come through later. */
export const DESCRIPTORS = { PASSWD: 4, GROUP: 5, HOSTS: 6, DATA: 10 } as const;
const { PASSWD, GROUP, HOSTS } = DESCRIPTORS;

export interface SandboxKind {
  /** User and group inside. Even 0 has no capability, and no rights on anything that it does not own. */
  readonly user: { readonly uid: number; readonly gid: number; readonly name: string; readonly home: string };
  readonly variables: Readonly<Record<string, string>>;
  /** The arguments of `bwrap` that make the files, with so many bytes for each file system that can be written. */
  readonly files: (bytes: number) => string;
  /** Whether the root itself cannot be written. */
  readonly isSealed: boolean;
}

const COMMON = {
  LANG: "C.UTF-8",
  LC_ALL: "C.UTF-8",
  TZ: "UTC",
  TERM: "dumb",
  PAGER: "cat",
  PYTHONUNBUFFERED: "1",
};

const USR = "--ro-bind /usr /usr";
const SYSTEM = `
  --symlink usr/bin /bin --symlink usr/sbin /sbin --symlink usr/lib /lib
  --symlink usr/lib64 /lib64
  --ro-bind-try /etc/alternatives /etc/alternatives --ro-bind-try /etc/ld.so.cache /etc/ld.so.cache
  --proc /proc --ro-bind /proc/sys /proc/sys --dev /dev`;

/** A user's home: nothing else can be written but /tmp and /dev/shm, each as much as the home directory. */
export const HOME_ONLY: SandboxKind = {
  user: { uid: 1000, gid: 1000, name: "user", home: "/home/user" },
  variables: {
    PATH: "/usr/local/bin:/usr/bin:/bin",
    HOME: "/home/user",
    USER: "user",
    ...COMMON,
    PYTHONDONTWRITEBYTECODE: "1",
  },
  files: (bytes) => `
    --ro-bind-data ${PASSWD} /etc/passwd --ro-bind-data ${GROUP} /etc/group --ro-bind-data ${HOSTS} /etc/hosts
    ${USR} ${SYSTEM}
    --size ${bytes} --tmpfs /dev/shm --remount-ro /dev
    --size ${bytes} --tmpfs /tmp --size ${bytes} --tmpfs /home/user`,
  isSealed: true,
};

/** Bytes of /dev/shm where it is not as large as the rest; Docker's containers have as many. */
const SHARED_BYTES = 2 ** 26;

/** The first variables of the user called root; the path is that of Docker's containers. */
export const ROOT_VARIABLES = {
  PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  HOME: "/root",
  ...COMMON,
};

const ROOT_DIRECTORIES = "/etc/profile.d /home /mnt /opt /run /srv /var/cache /var/lib /var/log".split(" ");

/** What is in /usr beside /usr/local, with the arguments that make it; links stay links. */
export const usrParts = (): ReadonlyMap<string, string> =>
  new Map(
    readdirSync("/usr")
      .filter((name) => name !== "local")
      .map((name) => {
        const path = `/usr/${name}`;
        const isLink = lstatSync(path).isSymbolicLink();
        return [path, isLink ? `--symlink ${readlinkSync(path)} ${path}` : `--ro-bind ${path} ${path}`];
      }),
  );

/**
 * A whole machine, whose user is called root: everything can be written but /usr, /proc and /dev.
 * @param hasOwnLocal whether /usr/local is not this machine's, but an empty one that can be written
 */
export const wholeRoot = (hasOwnLocal: boolean): SandboxKind => ({
  user: { uid: 0, gid: 0, name: "root", home: "/root" },
  variables: ROOT_VARIABLES,
  files: (bytes) => `
    --size ${bytes} --tmpfs /
    --perms 0644 --file ${PASSWD} /etc/passwd --perms 0644 --file ${GROUP} /etc/group
    --perms 0644 --file ${HOSTS} /etc/hosts --symlink ../usr/lib/os-release /etc/os-release
    ${hasOwnLocal ? `${[...usrParts().values()].join(" ")} --dir /usr/local/bin` : USR} ${SYSTEM}
    --ro-bind-try /etc/ssl/openssl.cnf /etc/ssl/openssl.cnf --ro-bind-try /etc/mime.types /etc/mime.types
    --ro-bind-try /etc/perl /etc/perl
    --size ${SHARED_BYTES} --tmpfs /dev/shm --remount-ro /dev
    --perms 0700 --dir /root --perms 1777 --dir /tmp --perms 1777 --dir /var/tmp
    ${ROOT_DIRECTORIES.map((path) => `--dir ${path}`).join(" ")}`,
  isSealed: false,
});
