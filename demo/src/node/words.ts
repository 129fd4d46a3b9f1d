// 64 adjectives and 64 animals, for made-up names.

export const ADJECTIVES: readonly string[] = [
  'able amber ample apt bold brave brief bright brisk calm clear clever cosy crisp curious deft eager early',
  'easy fair fine firm fleet fresh gentle glad golden grand green happy hardy honest humble jolly keen kind',
  'lively loyal lucky mellow merry mild modest neat nimble noble patient placid plain proud quick quiet',
  'rapid ready round sharp silent steady sunny sure swift tidy warm wise',
].flatMap(line => line.split(' '))

export const ANIMALS: readonly string[] = [
  'adder alpaca badger bat beaver bee bison boar camel cat cheetah cod cormorant crab crane cricket curlew',
  'deer dolphin dove duck eagle eel falcon ferret finch fox frog gecko goat goose hare hawk hedgehog heron',
  'ibex jackdaw kestrel lark lemur linnet lynx magpie marten mole moose newt otter owl panda pelican puffin',
  'rabbit raven robin salmon seal shrew sparrow stork swan tern toad wren',
].flatMap(line => line.split(' '))
