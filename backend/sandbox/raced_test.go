package sandbox

import "helix/backend/testkit"

const raceEnabled = testkit.Raced
