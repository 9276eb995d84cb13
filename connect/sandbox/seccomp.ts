/**
 * The system calls that a sandbox refuses, as a classic BPF program (seccomp(2)). A refused call fails with EPERM:
 *
 * - calls that no task needs and through which kernels were attacked
 * - memory that belongs to no process, and so to no limit: segments of System V, files without a name
 * - sockets of other families than Unix and Internet (AF_VSOCK knows no network namespace)
 * - limits and priorities of another process, and signals to process 1: it has the same user, and its limits would be
 *   those of the command that judges
 */

/** Numbers of system calls on x86-64 and on ARM64 (arch/x86/entry/syscalls/syscall_64.tbl, asm-generic/unistd.h). */
const CALLS: Readonly<Record<string, readonly [x64: number, arm64: number]>> = {
  acct: [163, 89],
  add_key: [248, 217],
  bpf: [321, 280],
  clock_settime: [227, 112],
  delete_module: [176, 106],
  fanotify_init: [300, 262],
  finit_module: [313, 273],
  fsconfig: [431, 431],
  fsmount: [432, 432],
  fsopen: [430, 430],
  fspick: [433, 433],
  init_module: [175, 105],
  io_uring_enter: [426, 426],
  io_uring_register: [427, 427],
  io_uring_setup: [425, 425],
  kexec_file_load: [320, 294],
  kexec_load: [246, 104],
  keyctl: [250, 219],
  mount: [165, 40],
  mount_setattr: [442, 442],
  move_mount: [429, 429],
  name_to_handle_at: [303, 264],
  memfd_create: [319, 279],
  memfd_secret: [447, 447],
  mq_open: [240, 180],
  msgget: [68, 186],
  open_by_handle_at: [304, 265],
  open_tree: [428, 428],
  perf_event_open: [298, 241],
  pidfd_getfd: [438, 438],
  pidfd_send_signal: [424, 424],
  pivot_root: [155, 41],
  process_vm_readv: [310, 270],
  process_vm_writev: [311, 271],
  ptrace: [101, 117],
  quotactl: [179, 60],
  reboot: [169, 142],
  request_key: [249, 218],
  semget: [64, 190],
  setns: [308, 268],
  settimeofday: [164, 170],
  shmat: [30, 196],
  shmget: [29, 194],
  swapoff: [168, 225],
  swapon: [167, 224],
  umount2: [166, 39],
  unshare: [272, 97],
  userfaultfd: [323, 282],
};
/** `socket` and `socketpair`, whose first argument is a family; AF_UNIX, AF_INET, AF_INET6. */
const SOCKETS: readonly (readonly [number, number])[] = [
  [41, 198],
  [53, 199],
];
const FAMILIES: readonly number[] = [1, 2, 10];
/** Calls whose first argument is a process, of which 0, the caller itself, is allowed. */
const OF_A_PROCESS: Readonly<Record<string, readonly [x64: number, arm64: number]>> = {
  prlimit64: [302, 261],
  sched_setaffinity: [203, 122],
  sched_setattr: [314, 274],
  sched_setparam: [142, 118],
  sched_setscheduler: [144, 119],
};
/** Calls that send a signal; their first argument is the process. */
const SIGNALS: Readonly<Record<string, readonly [x64: number, arm64: number]>> = {
  kill: [62, 129],
  rt_sigqueueinfo: [129, 138],
  rt_tgsigqueueinfo: [297, 240],
  tgkill: [234, 131],
  tkill: [200, 130],
};
/** Calls whose second argument is a process or a group of them, of which 0 is allowed. */
const OF_A_SECOND: Readonly<Record<string, readonly [x64: number, arm64: number]>> = {
  ioprio_set: [251, 30],
  setpriority: [141, 140],
};

/** Identifiers of the machine (linux/audit.h); the calls of another one, such as 32-bit x86, have other numbers. */
const MACHINES: Readonly<Record<string, number>> = { x64: 0xc000003e, arm64: 0xc00000b7 };

const LOAD = 0x20; // BPF_LD | BPF_W | BPF_ABS
const EQUAL = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const AT_LEAST = 0x35; // BPF_JMP | BPF_JGE | BPF_K
const RETURN = 0x06; // BPF_RET | BPF_K
const ALLOW = 0x7fff0000;
const REFUSE = 0x00050001; // SECCOMP_RET_ERRNO | EPERM
/** The places in `struct seccomp_data`. */
const [NUMBER, MACHINE, FIRST_ARGUMENT, SECOND_ARGUMENT] = [0, 4, 16, 24];

/** An instruction: its code, what it compares with, and how many instructions it jumps over if that holds, or not. */
type Instruction = readonly [code: number, value: number, ifTrue: number, ifFalse: number];

/** Decides about one call: allowed if the argument has one of these values, else refused. */
function onlyWith(number: number, argument: number, values: readonly number[]): Instruction[] {
  return [
    [EQUAL, number, 0, 2 + 2 * values.length],
    [LOAD, argument, 0, 0],
    ...values.flatMap((value): Instruction[] => [
      [EQUAL, value, 0, 1],
      [RETURN, ALLOW, 0, 0],
    ]),
    [RETURN, REFUSE, 0, 0],
  ];
}

/** The program as `bwrap --seccomp` reads it; undefined for a machine whose numbers are not known here. */
export function seccompProgram(machine: string = process.arch): Buffer | undefined {
  const id = MACHINES[machine];
  if (id === undefined) return undefined;
  const which = machine === "x64" ? 0 : 1;
  const numbersOf = (table: object): number[] =>
    Object.values(table as Readonly<Record<string, readonly [number, number]>>).map((numbers) => numbers[which]);
  const program: Instruction[] = [
    [LOAD, MACHINE, 0, 0],
    [EQUAL, id, 1, 0],
    [RETURN, REFUSE, 0, 0],
    [LOAD, NUMBER, 0, 0],
    // Numbers from 2^30 on are those of x32, a second table of the same calls.
    [AT_LEAST, 0x40000000, 0, 1],
    [RETURN, REFUSE, 0, 0],
    ...numbersOf(CALLS).flatMap((number): Instruction[] => [
      [EQUAL, number, 0, 1],
      [RETURN, REFUSE, 0, 0],
    ]),
    ...numbersOf(SOCKETS).flatMap((number) => onlyWith(number, FIRST_ARGUMENT, FAMILIES)),
    ...numbersOf(OF_A_PROCESS).flatMap((number) => onlyWith(number, FIRST_ARGUMENT, [0])),
    ...numbersOf(OF_A_SECOND).flatMap((number) => onlyWith(number, SECOND_ARGUMENT, [0])),
    ...numbersOf(SIGNALS).flatMap((number): Instruction[] => [
      [EQUAL, number, 0, 4],
      [LOAD, FIRST_ARGUMENT, 0, 0],
      [EQUAL, 1, 0, 1],
      [RETURN, REFUSE, 0, 0],
      [RETURN, ALLOW, 0, 0],
    ]),
    [RETURN, ALLOW, 0, 0],
  ];
  const bytes = Buffer.alloc(8 * program.length);
  program.forEach(([code, value, ifTrue, ifFalse], i) => {
    bytes.writeUInt16LE(code, 8 * i);
    bytes.writeUInt8(ifTrue, 8 * i + 2);
    bytes.writeUInt8(ifFalse, 8 * i + 3);
    bytes.writeUInt32LE(value, 8 * i + 4);
  });
  return bytes;
}
