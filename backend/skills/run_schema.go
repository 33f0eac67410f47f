package skills

import "sync"

// schemaCache keeps compiled schemas by their text.
type schemaCache struct{ mu sync.Mutex }
