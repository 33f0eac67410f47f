package wasmtools

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// Limits of uploads.
const (
	uploadLife    = time.Hour
	maxUploadPart = 8 << 20
	maxUploads    = 2 // concurrent uploads per user
)

// uploads holds modules that are uploaded in parts, and the hashes of completed ones. It is kept in
// memory, so an upload does not survive a restart.
type uploads struct {
	mu   sync.Mutex
	open map[uuid.UUID]*upload
	done map[uploaded]time.Time // until when it may be used
}

type upload struct {
	user  uuid.UUID
	data  []byte
	until time.Time
}

type uploaded struct {
	user uuid.UUID
	sum  [32]byte
}

// has reports whether the user has recently uploaded this content.
func (u *uploads) has(user uuid.UUID, sum [32]byte) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return time.Now().Before(u.done[uploaded{user, sum}])
}

// sweep drops expired uploads. The caller must hold u.mu.
func (u *uploads) sweep(now time.Time) {
	for id, x := range u.open {
		if now.After(x.until) {
			delete(u.open, id)
		}
	}
	for k, until := range u.done {
		if now.After(until) {
			delete(u.done, k)
		}
	}
}

// Sweep drops uploads that were not completed or used in time.
func (s *Service) Sweep() {
	s.uploads.mu.Lock()
	defer s.uploads.mu.Unlock()
	s.uploads.sweep(time.Now())
}

// add appends a part, and returns the whole module after the last part.
func (u *uploads) add(user uuid.UUID, p *UploadWasmParams) (id uuid.UUID, data []byte, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	u.sweep(now)
	if u.open == nil {
		u.open, u.done = map[uuid.UUID]*upload{}, map[uploaded]time.Time{}
	}
	var x *upload
	if p.UploadID == nil {
		n := 0
		for _, o := range u.open {
			if o.user == user {
				n++
			}
		}
		if n >= maxUploads {
			return id, nil, fault.Limitf("%d uploads are already running. Finish one first.", n)
		}
		id, x = storage.NewID(), &upload{user: user}
		u.open[id] = x
	} else {
		id = *p.UploadID
		if x = u.open[id]; x == nil || x.user != user {
			return id, nil, fault.NotFoundf("Upload not found. Start again.")
		}
	}
	x.until = now.Add(uploadLife)
	if p.Offset != int64(len(x.data)) {
		return id, nil, fault.Conflictf("The upload has %d bytes, so the next part begins there, not at %d.", len(x.data), p.Offset).
			WithDetails(UploadWasmResult{UploadID: id, Size: int64(len(x.data))})
	}
	if len(x.data)+len(p.Data) > maxWasm {
		delete(u.open, id)
		return id, nil, fault.Limitf("The module has more than %d MiB.", maxWasm>>20)
	}
	x.data = append(x.data, p.Data...)
	if p.Done {
		delete(u.open, id)
	}
	return id, x.data, nil
}

// UploadWasm receives a module in parts, for modules that are too large for one call, and stores it
// in the blob store with the last part. A blob that no WASM tool refers to is deleted after a day.
func (s *Service) UploadWasm(ctx context.Context, p UploadWasmParams) (UploadWasmResult, error) {
	if len(p.Data) > maxUploadPart {
		return UploadWasmResult{}, fault.Limitf("A part has at most %d MiB.", maxUploadPart>>20)
	}
	user := identity.UserID(ctx)
	id, data, err := s.uploads.add(user, &p)
	if err != nil {
		return UploadWasmResult{}, err
	}
	out := UploadWasmResult{UploadID: id, Size: int64(len(data))}
	if !p.Done {
		return out, nil
	}
	if len(data) == 0 {
		return out, fault.Invalidf("The upload is empty.")
	}
	ref, err := s.db.Blobs().PutBytes(ctx, data)
	if err != nil {
		return out, err
	}
	s.uploads.mu.Lock()
	s.uploads.done[uploaded{user, ref.SHA256}] = time.Now().Add(uploadLife)
	s.uploads.mu.Unlock()
	out.BlobSHA256 = ref.String()
	return out, nil
}
