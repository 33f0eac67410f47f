package skills

import "helix/backend/storage"

// journal commits what runs write at the same moment in one transaction.
type journal struct{ db *storage.DB }
