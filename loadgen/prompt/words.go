package prompt

import "strings"

// words are common English words, each with the space before it: most
// vocabularies have each as one token.
var words = spaced(`the and that have for not with you this but his from they say her she will one all would there their
what out about who get which when make can like time just him know take people into year your good some could them see
other than then now look only come over think also back after use two how our work first well way even new want because
any these give day most us long place small large house world school still public read hand high part found water light
night name line right move kind need air point play end home group where start city tree cross hard might story saw far
sea left late run while press close real life few north open seem together next white children begin got walk example
paper often always music those both mark book letter until mile river car feet care second enough plain girl young ready
above ever red list though feel talk bird soon body dog family direct leave song door product black short class wind
question happen complete ship area half rock order fire south problem piece told knew pass since top whole king space`)

// letters are for vocabularies of bytes.
var letters = strings.Split("abcdefghijklmnopqrstuvwxyz", "")

func spaced(list string) []string {
	out := strings.Fields(list)
	for i, w := range out {
		out[i] = " " + w
	}
	return out
}
