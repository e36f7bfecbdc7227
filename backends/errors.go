package backends

import "errors"

// ErrNoTokenizer is returned by Client.Tokenize when the server has no route
// for it.
var ErrNoTokenizer = errors.New("the server has no tokenizer route")

// ErrNoCacheReset says that the server has no route that empties its prefix
// cache.
var ErrNoCacheReset = errors.New("the server has no route that empties its prefix cache")
