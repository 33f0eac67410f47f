package memory

import "helix/backend/testkit"

const raced = testkit.Raced
