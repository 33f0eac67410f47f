package vector

import "helix/backend/testkit"

const raced = testkit.Raced
