package scheduler

import "helix/backend/testkit"

const raced = testkit.Raced
