package storage

import "helix/backend/testkit"

const raced = testkit.Raced
