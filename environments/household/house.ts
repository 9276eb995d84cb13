/**
 * Houses: rooms with places (furniture, devices) that hold things, and what an action does there. The rules are those
 * of ALFWorld (Shridhar et al. 2021), with shorter commands: one thing in the hand at a time, closed places show
 * nothing, heat, cold and cleanness are made at a device.
 *
 * A state is a value: an action gives a new one.
 */

export const ROOMS: readonly string[] = ["kitchen", "bedroom", "hall"];

export interface Place {
  readonly name: string;
  /** Its room in houses with several rooms. */
  readonly room: string;
  /** Can be open or closed, and is closed at first. */
  readonly closes?: true;
}

export const PLACES: readonly Place[] = [
  { name: "fridge", room: "kitchen", closes: true },
  { name: "stove", room: "kitchen" },
  { name: "sink", room: "kitchen" },
  { name: "cupboard", room: "kitchen", closes: true },
  { name: "counter", room: "kitchen" },
  { name: "bed", room: "bedroom" },
  { name: "lamp", room: "bedroom" },
  { name: "desk", room: "bedroom" },
  { name: "drawer", room: "bedroom", closes: true },
  { name: "closet", room: "bedroom", closes: true },
  { name: "table", room: "hall" },
  { name: "shelf", room: "hall" },
  { name: "bench", room: "hall" },
  { name: "chest", room: "hall", closes: true },
  { name: "box", room: "hall", closes: true },
];

export const placeNamed = (name: string): Place | undefined => PLACES.find((place) => place.name === name);

/** The treatments: the device of each, and the property that it gives to the thing in the hand. */
export const TREATMENTS = {
  heat: { device: "stove", makes: "hot" },
  cool: { device: "fridge", makes: "cold" },
  wash: { device: "sink", makes: "clean" },
} as const;
export type Treatment = keyof typeof TREATMENTS;
export type Property = (typeof TREATMENTS)[Treatment]["makes"];
const isTreatment = (verb: string): verb is Treatment => Object.hasOwn(TREATMENTS, verb);

export interface House {
  /** Some of `ROOMS`, or one room with everything in it, called `house`. */
  readonly rooms: readonly string[];
  /** Names of the places in this house, in the order in which they are listed. */
  readonly places: readonly string[];
  readonly roomOf: (place: string) => string;
}

export interface HouseState {
  readonly room: string;
  /** The place at which the agent stands. */
  readonly at: string | undefined;
  readonly hand: string | undefined;
  readonly contents: ReadonlyMap<string, readonly string[]>;
  readonly open: ReadonlySet<string>;
  readonly lit: boolean;
  /** `hot` and `cold` exclude each other; `clean` stays. */
  readonly properties: ReadonlyMap<string, readonly Property[]>;
  /** Places whose contents, and rooms whose places, the agent has seen. */
  readonly seen: ReadonlySet<string>;
}

export interface Deed {
  readonly observation: string;
  readonly state?: HouseState;
  readonly failed?: boolean;
}

const failed = (observation: string): Deed => ({ observation, failed: true });
const withEntry = <K, V>(map: ReadonlyMap<K, V>, key: K, value: V): ReadonlyMap<K, V> =>
  new Map([...map, [key, value]]);

export const isShut = ({ open }: HouseState, place: string): boolean =>
  placeNamed(place)?.closes === true && !open.has(place);

/** The text of a place: `shelf: lomika, tekaru`, `shelf: nothing`, `fridge is closed`. */
function placeText(state: HouseState, place: string): string {
  if (isShut(state, place)) return `${place} is closed`;
  return `${place}: ${state.contents.get(place)!.join(", ") || "nothing"}`;
}

/** The text of a room: its places, and the other rooms if there are any. */
export function roomText(house: House, room: string): string {
  const here = house.places.filter((place) => house.roomOf(place) === room).join(", ");
  const others = house.rooms.filter((other) => other !== room);
  return `${room}: ${here}${others.length > 0 ? `; to ${others.join(", ")}` : ""}`;
}

/** The state after looking at the place where the agent stands. */
function looked(state: HouseState): HouseState {
  if (state.at === undefined || isShut(state, state.at)) return state;
  return { ...state, seen: new Set([...state.seen, state.at]) };
}

/** One action. @param rest what it is done to; may be empty */
export function act(house: House, state: HouseState, verb: string, rest: string): Deed {
  const { at, hand } = state;
  const thing = rest.toLowerCase();
  const see = (next: HouseState): Deed => ({ observation: placeText(next, next.at!), state: looked(next) });
  if (verb === "look" && thing === "")
    return { observation: at === undefined ? roomText(house, state.room) : placeText(state, at) };
  if (verb === "hand" && thing === "") return { observation: `you have ${hand ?? "nothing"}` };
  if (verb === "go") {
    if (house.rooms.includes(thing)) {
      const next = { ...state, room: thing, at: undefined, seen: new Set([...state.seen, thing]) };
      return { observation: roomText(house, thing), state: next };
    }
    const there = house.places.includes(thing) && house.roomOf(thing) === state.room;
    return there ? see({ ...state, at: thing }) : failed("no such place here");
  }
  if (verb === "use") {
    if (thing !== "lamp" || at !== "lamp") return failed("you are not at a lamp");
    return { observation: "lamp is on", state: { ...state, lit: true } };
  }
  if (verb === "open" || verb === "close") {
    if (at === undefined || at !== thing) return failed("you are not there");
    if (placeNamed(at)?.closes !== true) return failed(`${at} does not ${verb}`);
    const open = new Set(state.open);
    if (verb === "open") open.add(at);
    else open.delete(at);
    return see({ ...state, open });
  }
  if (verb === "take") {
    if (at === undefined || isShut(state, at) || !state.contents.get(at)!.includes(thing))
      return failed("no such thing here");
    if (hand !== undefined) return failed("your hand is full");
    const left = state.contents.get(at)!.filter((name) => name !== thing);
    const next = { ...state, hand: thing, contents: withEntry(state.contents, at, left) };
    return { observation: `you have ${thing}`, state: next };
  }
  if (verb !== "put" && !isTreatment(verb))
    return failed("unknown action; use go, open, close, take, put, heat, cool, wash, use, look or hand");
  if (hand === undefined || hand !== thing) return failed("you do not have that");
  if (at === undefined) return failed("you are not at a place");
  if (isShut(state, at)) return failed(`${at} is closed`);
  if (verb === "put") {
    const contents = withEntry(state.contents, at, [...state.contents.get(at)!, hand]);
    return see({ ...state, hand: undefined, contents });
  }
  const { device, makes } = TREATMENTS[verb];
  if (at !== device) return failed(`you are not at a ${device}`);
  const kept = (state.properties.get(hand) ?? []).filter((property) => (property === "clean") !== (makes === "clean"));
  const properties = withEntry(state.properties, hand, [...kept, makes]);
  return { observation: `${hand} is ${makes}`, state: { ...state, properties } };
}
