/**
 * The program that is process 1 of a sandbox, in bash. It reads commands from descriptor 0, runs each in a process
 * group of its own, and says when it is over. Nothing inside a sandbox can kill process 1, so a session outlives
 * whatever a command does.
 *
 * A request is three texts, each followed by a NUL: a mark that nobody can guess, `agent`, `host` or `beside`, and the
 * command.
 * The answer to an agent's is, on descriptor 1, the mark, the output, and the mark again; then, on the channel, a line
 * with the mark and the exit code. The channel is descriptor 2 as it was at first, which no command of an agent's has.
 * It is the one that is believed: a command may find the mark in its own memory, which is a copy of its parent's, and
 * print it, and it may read and write the pipe of descriptor 1 by its name in /proc. Before a `host` command all other
 * processes are killed, and its output is on the channel, too. A `beside` command is one of the host's that leaves the
 * others alone; so it must give the channel to no program that others may look into.
 *
 * An agent's command begins where the one before ended: directory, variables, functions, aliases, options and umask of
 * the shell are written to a file at its end and read again. The shell that reads the file is the command's own, so
 * what an agent writes into it is a command like any other. There are two such files in turn: of one that was cut off,
 * by a time-out or a full disk, the last line is missing; nothing of it is run, and the other is read. A `host` command
 * reads nothing that an agent has written.
 *
 * USR1 ends the running command with all that it has begun, and USR2 kills it.
 */

/** The files that keep the state of the agent's shell; their number comes behind. */
const STATE = "/tmp/.state";

/**
 * @param processes that process 1 and its commands may be together; commands get a quarter less, so that process 1 can
 *   always begin another
 * @param variables the names of the first command's
 */
export const supervisor = (processes: number, variables: readonly string[]): string => String.raw`
exec 8>&2 2>/dev/null
set -m
ulimit -u ${processes}
shopt -s expand_aliases
# Writes the state of the shell to file $1, as that of command $2. The variables that are left out are made by the
# shell, and setting some of them would end the next command.
_save() {
  # What a command has put in the file's place (a pipe) might never take what is written.
  if [[ -e "${STATE}.$1" && ! -f "${STATE}.$1" ]]; then return; fi
  # Whoever reads this before it is whole takes nothing from it: constants of bash would end the command.
  { builtin printf 'return 1\n'; builtin declare -p; } >| "${STATE}.$1"
  local line lines name IFS=$' \t\n'
  builtin mapfile -t -s 1 lines < "${STATE}.$1"
  {
    builtin printf ': %s\ncd -- %q\n' "$2" "$PWD"
    builtin printf 'unset -v OLDPWD ${variables.join(" ")}\nshopt -s extglob\n'
    for line in "${"$"}{lines[@]}"; do
      name=${"$"}{line#declare -* }
      case ${"$"}{name%%=*} in
        BASHOPTS|BASHPID|BASH_ALIASES|BASH_ARG[CV]|BASH_ARGV0|BASH_COMMAND|BASH_LINENO|BASH_SOURCE|BASH_SUBSHELL) ;;
        BASH_VERSINFO|COMP_WORDBREAKS|DIRSTACK|EPOCHREALTIME|EPOCHSECONDS|EUID|FUNCNAME|GROUPS|HISTCMD|LINENO) ;;
        PIPESTATUS|PPID|RANDOM|SECONDS|SHELLOPTS|SRANDOM|UID) ;;
        *) builtin printf '%s\n' "$line" ;;
      esac
    done
    builtin declare -f
    builtin umask -p
    builtin printf '[ -d "$PWD" ] || cd\n'
    builtin shopt -p
    builtin set +o
    builtin alias -p
    builtin printf '# whole\n'
  } >| "${STATE}.$1"
} 2>&-
_whole() { local lines; [ -f "$1" ] && mapfile -t lines < "$1" && [ "${"$"}{lines[-1]}" = '# whole' ]; }
_again() { return "$1"; }
# Waits until the last job has ended, or a signal has stopped it; then it stays in the background, as in a terminal.
# A signal that comes between two waits of bash ends the second at its begin, as 128 and its number, here 138 or 140.
_end() {
  job=$! code=148
  while wait "$job"; code=$?; [[ -n $late || $code == 138 || $code == 140 ]] && kill -0 "$job"; do :; done
}
_children() {
  local kids kid
  { read -ra kids < /proc/$1/task/$1/children; } 2>&-
  for kid in "${"$"}{kids[@]}"; do _children "$kid"; done
  doomed+=("$1")
}
late= last=0 turn=0
trap 'late=1; doomed=(); _children "$job"; kill -TERM -- "${"$"}{doomed[@]}" -"$job"' USR1
trap 'kill -KILL -- "${"$"}{doomed[@]}" -"$job"' USR2
_serve() {
  IFS= read -r -d '' mark && IFS= read -r -d '' who && IFS= read -r -d '' command || return
  late= doomed=()
  if [ "$who" != agent ]; then
    [ "$who" = host ] && for ((tries = 0; tries < 1000; tries++)); do kill -KILL -1 || break; done
    printf %s "$mark" >&8
    (trap - USR1 USR2; eval "$command") </dev/null >&8 8>&- &
    _end
    [ -n "$late" ] && kill -KILL -- "${"$"}{doomed[@]}" -"$job"
    printf '%s:%s\n' "$mark" "$code" >&8
    return 0
  fi
  turn=$((turn + 1))
  printf %s "$mark"
  (
    trap - USR1 USR2
    ulimit -u ${Math.floor((processes * 3) / 4)}
    set +m
    {
      zero=0 one=0
      [ -f ${STATE}.0 ] && read -r _ zero < ${STATE}.0
      [ -f ${STATE}.1 ] && read -r _ one < ${STATE}.1
      set -- "$command" $last $turn $((one > zero))
      unset mark who command late last turn tries job code doomed zero one
      _whole "${STATE}.$4" || set -- "$1" "$2" "$3" "$((1 - $4))"
      _whole "${STATE}.$4" && . "${STATE}.$4"
      _line=$1 _code=$2 _turn=$3 _other=$((1 - $4))
      set --
      trap '[ -v _saved ] || _save "$_other" "$_turn"' EXIT
      case $- in *e*) ;; *) _again "$_code" ;; esac
    } >/dev/null 2>&1
    eval "$_line"
    { _code=$?; _save "$_other" "$_turn"; _saved=1; exit "$_code"; } 2>/dev/null
  ) </dev/null 2>&1 8>&- 10<&- &
  _end
  [ -n "$late" ] && kill -KILL -- "${"$"}{doomed[@]}" -"$job"
  last=$code
  printf %s "$mark"
  printf '%s:%s\n' "$mark" "$code" >&8
}
# A job that is stopped by SIGTSTP ends the loops of bash that wait for it, so that everything is done in functions.
while _serve; do :; done`;
