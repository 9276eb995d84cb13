/**
 * Test files share their modules (`isolate: false` in vitest.config.ts), so each begins without the default device that
 * the file before it may have left. It is a setup file: it runs before each test file.
 */
import { device, setDevice } from "../../engine/device.ts";

const last = await device("reference");
setDevice(last);
last.dispose(); // a default device that is disposed leaves none
