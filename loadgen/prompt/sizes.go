package prompt

import "sync"

// sizes learns from the server's usage how many tokens a prompt of so many
// units has: a fixed part, the template's, and so many a unit. It is safe for
// concurrent use; its zero value knows nothing.
type sizes struct {
	mu                                 sync.Mutex
	n, units, tokens, squares, product float64 // sums over the prompts so far
	fixed, each                        float64 // the line through them
}

// mildExcess is how many more tokens than units a prompt may have for its units
// to pass for single tokens.
const mildExcess = 1.25

// learn takes the tokens of one prompt. The line is that of least squares.
// Prompts of one length cannot tell its two parts apart: few more tokens than
// units are then a template, and many more are units of several tokens, until a
// prompt of another length says better.
func (z *sizes) learn(units, tokens int) {
	z.mu.Lock()
	defer z.mu.Unlock()
	u, t := float64(units), float64(tokens)
	z.n, z.units, z.tokens = z.n+1, z.units+u, z.tokens+t
	z.squares, z.product = z.squares+u*u, z.product+u*t
	mean, meanTokens := z.units/z.n, z.tokens/z.n
	switch variance := z.squares/z.n - mean*mean; {
	case variance > 1e-4*mean*mean && variance > 1:
		z.each = max((z.product/z.n-mean*meanTokens)/variance, 1)
	case mean > 0 && meanTokens > mildExcess*mean:
		z.each = meanTokens / mean
	default:
		z.each = 1
	}
	z.fixed = meanTokens - z.each*mean
}

// count is how many units make a prompt of so many tokens.
func (z *sizes) count(tokens int) int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return max(0, int((float64(tokens)-z.fixed)/max(z.each, 1)+0.5))
}

// overhead is the tokens of the fixed part.
func (z *sizes) overhead() int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return max(0, int(z.fixed+0.5))
}
