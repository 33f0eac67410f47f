// Loaded before every unit test. vi.waitFor gives up after a second, which is too short on a busy machine; a
// failure still has the last reason.
import { vi } from "vitest";

const { waitFor } = vi;
vi.waitFor = ((ok, options) => waitFor(ok, options ?? { timeout: 30_000 })) as typeof vi.waitFor;
