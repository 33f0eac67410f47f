package embed

import "helix/backend/testkit"

const raced = testkit.Raced
