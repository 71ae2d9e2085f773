"""What the scenarios let a model read: a conversation that stays on its subject, unrelated subjects, a long report."""

import itertools

CONVERSATION = (
    "A baker explains to an apprentice how a loaf of sourdough bread is made.\n\nApprentice: I have a starter that "
    "doubles in five hours, strong white flour, some rye, water and salt. The kitchen is at twenty-two degrees. How "
    "do I get from there to a loaf with an open crumb and a thin, crisp crust?\n\nBaker:",
    "\n\nApprentice: The dough is still slack and sticks to my hands after the second fold. Should I add flour, or "
    "wait longer between the folds? And how do I see that it has risen far enough to be shaped?\n\nBaker:",
    "\n\nApprentice: It rested in the basket overnight in the refrigerator. How deep do I score it, how hot must the "
    "oven be, and for how long do I keep the steam in before the crust is allowed to colour?\n\nBaker:",
    "\n\nApprentice: The crumb is a little gummy near the bottom although the crust is dark. What went wrong, and "
    "what would you change in tomorrow's dough?\n\nBaker:",
    "\n\nApprentice: Suppose I bake the same dough in a tin for sandwiches. Which of the steps can I leave out, and "
    "which quantities change?\n\nBaker:",
    "\n\nApprentice: Please repeat the whole recipe from the beginning, as a short list with times and weights."
    "\n\nBaker:",
)
"""One subject throughout, turn by turn."""

SUBJECTS = {
    "cooking": (
        "Tonight's dinner is a risotto with mushrooms for four people. First the onion is cut very small and softened "
        "in butter without taking colour; then the rice is added and stirred until every grain is hot. The next step "
        "is the wine, and after it the broth, which"
    ),
    "C++": (
        "#include <cstddef>\n#include <stdexcept>\n#include <vector>\n\n// A ring buffer of fixed capacity: pushing "
        "into a full one drops the oldest element.\ntemplate <typename T>\nclass RingBuffer {\npublic:\n    explicit "
        "RingBuffer(std::size_t capacity) : items_(capacity) {\n        if (capacity == 0) {\n            throw "
        'std::invalid_argument("capacity must be positive");\n        }\n    }\n\n    void push(const T &item) {\n'
    ),
    "history": (
        "In the thirteenth century the towns along the Baltic coast began to protect their ships together. Merchants "
        "from Lübeck, Visby and Riga agreed on common weights, on shared offices in foreign ports, and on what should "
        "be done about a prince who raised the tolls. The most important of their offices abroad was"
    ),
    "mathematics": (
        "Theorem. There are infinitely many primes of the form 4k + 3.\nProof. Suppose there were only finitely many, "
        "p_1 = 3, p_2, ..., p_n. Consider the number N = 4 p_2 p_3 ... p_n + 3. It is odd and leaves the remainder 3 "
        "when divided by 4, so not all of its prime factors can leave the remainder 1. Therefore"
    ),
    "Chinese": (
        "春天的早晨，村口的老槐树下坐着几位老人。他们一边喝茶，一边谈论今年的天气和庄稼。孩子们背着书包从桥上跑过，"
        "河水很清，可以看见小鱼。这时候，一位年轻的邮递员骑着自行车来了，他带来了一封"
    ),
    "JSON": (
        '{"orders": [\n  {"id": 1041, "customer": "Nakamura", "items": [{"sku": "LAMP-3", "count": 2, "price": 18.5}], '
        '"shipped": true},\n  {"id": 1042, "customer": "Okafor", "items": [{"sku": "DESK-1", "count": 1, "price": '
        '240.0}, {"sku": "LAMP-3", "count": 1, "price": 18.5}], "shipped": false},\n  {"id": 1043, "customer":'
    ),
    "biology": (
        "A leaf takes in carbon dioxide through small openings on its lower side. Two guard cells around each of them "
        "swell when water enters and bend apart, so that the opening widens in the morning light. On a dry afternoon "
        "the plant has to choose between hunger and thirst, because"
    ),
    "a letter": (
        "Dear Ms Lindqvist,\n\nthank you for your letter of 3 March about the flat in Mill Street. As you know, the "
        "heating failed twice in January, and the window in the kitchen still does not close. I should like to ask "
        "you to have both repaired before the end of the month. Until then, according to our contract,"
    ),
}
"""Unrelated subjects and kinds of text, each an opening that wants to be gone on with."""

_REPORT = (
    "The survey of the upper valley began in May, when the snow had left the lower meadows and the river could be "
    "crossed at the stone ford. Three groups walked on both banks and noted every spring, every ditch and every wall "
    "that had been built to keep the water away from the fields.",
    "Most of the walls are older than the mill. The stones in the lowest rows are large and hardly worked, while those "
    "above were cut to size; a mason from the village thinks that the upper part was added after the flood which the "
    "parish register mentions without naming a year.",
    "The mill itself has not turned since the new road was opened. Its wheel is gone, but the channel still carries "
    "water, and the owner has put a small turbine into it that feeds a workshop, two houses and, in winter, the pump "
    "of the fire brigade.",
    "Further up the slope the soil becomes thin. Here the farmers keep sheep, and here the second group found the "
    "remains of a lime kiln, four steps deep and lined with bricks that bear the mark of a maker from the coast.",
    "The forest above belongs to eleven families, who meet each February to decide how many trees are felled and who "
    "drives the timber down. Their book of minutes goes back a hundred and forty years and lists storms, prices, "
    "quarrels, and the names of all the horses.",
    "What the survey could not settle is the course of the old path over the pass. On one map it follows the stream, "
    "on another it climbs straight to the chapel; both were drawn in the same decade by men who had been there, and "
    "both show a bridge of which no stone is left.",
)


def report(characters: int) -> str:
    """So many characters, at least one, of a report in numbered parts; it may end within a word."""
    characters = max(characters, 1)
    parts: list[str] = []
    length = 0
    for number, paragraph in enumerate(itertools.cycle(_REPORT), start=1):
        if length >= characters:
            break
        parts.append(f"{number}. {paragraph}\n\n")
        length += len(parts[-1])
    return "".join(parts)[:characters]
