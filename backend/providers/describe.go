package providers

import "context"

// Describe returns the model that would answer a request: the first of its chain that can be
// resolved. It calls nothing: the window of a server on this computer is the one that Prepare found.
func (r *Router) Describe(ctx context.Context, q Request) (ModelInfo, error) {
	return r.describe(ctx, q, false)
}

// Prepare is Describe for a request that will be sent: a server on this computer is asked for the window
// that it has loaded the model with.
func (r *Router) Prepare(ctx context.Context, q Request) (ModelInfo, error) {
	return r.describe(ctx, q, true)
}

func (r *Router) describe(ctx context.Context, q Request, ask bool) (ModelInfo, error) {
	_, entries, chain, _, err := r.chain(ctx, q)
	if err != nil {
		return ModelInfo{}, err
	}
	var last error
	for _, ref := range chain {
		t, err := r.resolve(ctx, entries, ref)
		if err == nil && ask && t.entry.local() {
			r.askLoaded(ctx, t)
			t, err = r.resolve(ctx, entries, ref)
		}
		if err == nil {
			t.info.Host, t.info.Local = t.entry.host(), t.entry.local()
			return t.info, nil
		}
		last = err
	}
	return ModelInfo{}, last
}

// TooLong reports whether a request was refused because the conversation is too long for the model.
func TooLong(err error) bool { return codeOf(err) == codeContext }

// Overrun reports whether a call was canceled because its answer passed what was reserved for it.
func Overrun(err error) bool { return codeOf(err) == codeOverrun }
