"""The shared pool of names: short English nouns, each replaceable as a whole word.

No word is part of another one or of a word of the clauses and commands (held by a test), so a name can be renamed, or
tokenized as one token, without touching anything else.
"""

_TEXT = """
acorn almond amber anchor apricot april arrow aspen august aurora autumn badger bagel baker bamboo banana
barley basalt basil basket beach bean beet berlin birch bison bottle bread breeze bronze bucket burger butter
button cabbage cactus cairo camel candle canvas canyon carpet carrot cashew castle cedar celery chapel cheese
cherry chess cliff cloud clover cobalt cobra cocoa coffee comet condor copper coral cosmos cradle crystal
cypress dahlia daisy delta desert diamond drum dublin eagle emerald falcon farmer fern fiddle finch flour
flute forest friday frost galaxy garlic garnet gecko ginger glacier granite grape guava guitar hammer harp
hazel helmet heron hippo hockey honey hunter iris island ivy jacket jade jasmine judge july june jungle
juniper jupiter kettle knight koala ladder lagoon lake lamp lantern laurel leek lemon lemur lilac lily lima
london lotus madrid magnet magpie mango maple marble meadow melon meteor miner mirror mitten monday monk moon
moose moss muffin myrtle nebula needle neptune nickel noodle nurse ocean olive onion onyx opal orbit orchid
oslo otter oven paddle palm pancake panda papaya paris parrot parsley pasta peach peanut pearl pecan pencil
peony pepper piano pigeon pillow pilot pirate pizza planet plough plum pluto pocket poet polo poplar poppy
potato prairie puffin pumpkin quartz queen quilt radish raven ribbon river robin rocket ruby rudder rugby
saddle saffron sailor salad salmon sandal saturn scarf shovel shrimp silver snow soccer soup spinach spoon
spring squash squid statue storm sugar summit sunday swamp sword taco tailor tennis thimble thyme tiger
titan tokyo tomato topaz torch tornado trout trumpet tulip tundra tunnel turnip turret uranus valley vanilla
vase velvet venus vienna violet violin viper volcano waffle wagon wallet walnut walrus wheat whistle willow
window winter wizard zebra zinc
"""
WORDS: tuple[str, ...] = tuple(_TEXT.split())
