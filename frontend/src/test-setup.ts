// Loaded before every unit test. vi.waitFor gives up after a second, which a busy machine needs
// for other things; what never comes is still told, with the last reason.
import { vi } from "vitest";

const { waitFor } = vi;
vi.waitFor = ((ok, options) => waitFor(ok, options ?? { timeout: 30_000 })) as typeof vi.waitFor;
