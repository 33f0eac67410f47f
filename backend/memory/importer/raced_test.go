package importer

import "helix/backend/testkit"

const raced = testkit.Raced
