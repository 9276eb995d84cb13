/** The errors of a file system, in the words of `strerror`. */

/** An expected failure; `message` is the text that `strerror` has for it. */
export class Errno extends Error {}

export const NO_ENTRY = "No such file or directory";
export const NOT_DIRECTORY = "Not a directory";
export const IS_DIRECTORY = "Is a directory";
export const EXISTS = "File exists";
export const NO_SPACE = "No space left on device";
export const NOT_EMPTY = "Directory not empty";
