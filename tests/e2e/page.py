"""An HTML page taken apart by the standard library's parser, and what every good page of ours obeys."""

import base64
import hashlib
import re
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "hr", "img", "input", "col"}
REFERRING = ("href", "src", "xlink:href", "action", "poster", "data", "srcset", "formaction", "background")


class Element:
    def __init__(self, name, attributes, parent):
        self.name, self.attributes, self.parent = name, attributes, parent
        self.children = []

    def text(self):
        return "".join(child if isinstance(child, str) else child.text() for child in self.children)

    def find(self, name=None, **attributes):
        """Every element below with that name and these attributes (`class_` is `class`)."""
        wanted = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
        return [
            element
            for element in self.below()
            if name in (None, element.name) and all(element.attributes.get(key) == v for key, v in wanted.items())
        ]

    def below(self):
        """Every element in this one, in the order of the text."""
        waiting = self.children[::-1]
        while waiting:
            element = waiting.pop()
            if not isinstance(element, str):
                yield element
                waiting += element.children[::-1]

    def one(self, name=None, **attributes):
        found = self.find(name, **attributes)
        assert len(found) == 1, f"{len(found)} of {name} {attributes}"
        return found[0]


class Tree(HTMLParser):
    """Strict: what is opened is closed, in order, and no attribute is given twice."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.root = self.at = Element("root", {}, None)
        self.feed(text)
        self.close()
        assert self.at is self.root, f"<{self.at.name}> is not closed"

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice: {names}"
        element = Element(tag, {name: value or "" for name, value in attrs}, self.at)
        self.at.children.append(element)
        if tag not in VOID:
            self.at = element

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.at = self.at.parent

    def handle_endtag(self, tag):
        assert self.at.name == tag, f"</{tag}> closes <{self.at.name}>"
        self.at = self.at.parent

    def handle_data(self, data):
        self.at.children.append(data)


def read(text):
    """The page's elements, once it has been checked for what holds of every page."""
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", text), "a control character"
    root = Tree(text).root
    everything = root.find()
    check_references(text, everything)
    check_policy(root)
    check_access(root, everything)
    check_drawings(root)
    return root


def check_references(text, everything):
    """Ids are unique, whatever refers to something refers into the page, and nothing is loaded."""
    ids = [element.attributes["id"] for element in everything if "id" in element.attributes]
    assert len(ids) == len(set(ids)), "an id twice"
    assert all(re.fullmatch("[a-z0-9-]+", name) for name in ids)
    for element in everything:
        assert element.name not in ("link", "img", "iframe", "object", "embed", "base", "form", "use", "image")
        for name, value in element.attributes.items():
            assert not name.startswith("on"), f"<{element.name} {name}>"
            if name in REFERRING:
                assert value.startswith("#") and value[1:] in ids, value
            if name in ("aria-labelledby", "aria-describedby", "for"):
                assert set(value.split()) <= set(ids), value
            assert "url(" not in value
    for element in everything:
        if element.name in ("style", "script"):
            assert not re.search(r"url\(|@import|https?:|//\w|fetch|XMLHttp|WebSocket|import\(", element.text())


def check_policy(root):
    """The policy forbids everything but the style sheet and the script that are there, by their hashes."""
    policy = root.one("meta", http_equiv="Content-Security-Policy").attributes["content"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    for name, kind in (("style", "style-src"), ("script", "script-src")):
        digest = hashlib.sha256(root.one(name).text().encode()).digest()
        assert rules[kind] == f"'sha256-{base64.b64encode(digest).decode()}'"
    assert not [element for element in root.find() if "style" in element.attributes]


def check_access(root, everything):
    """Language, headings in order, tables with captions and scopes, drawings with names, scrolling by keyboard."""
    assert root.one("html").attributes["lang"] == "en"
    assert root.one("head").one("title").text().strip()
    assert root.one("main").attributes["id"] == root.one("a", class_="skip").attributes["href"][1:]
    levels = [int(element.name[1]) for element in everything if re.fullmatch("h[1-6]", element.name)]
    assert levels.count(1) == 1 and levels[0] == 1
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:])), levels
    for table in root.find("table"):
        assert len(table.find("caption")) == 1
        assert all(cell.attributes.get("scope") in ("col", "row") for cell in table.find("th"))
        rows = [[cell for cell in row.children if cell != "\n"] for row in table.find("tr")]
        widths = set(map(len, rows))
        assert len(widths) == 1, f"rows of {widths} cells"
        for column in zip(*rows):  # numbers are on the right, and so is what stands above them
            right = {"n" in cell.attributes.get("class", "").split() for cell in column}
            assert len(right) == 1, column[0].text()
        assert table.parent.attributes.get("class") == "scroll"
        headings = [cell.text() for cell in table.one("thead").find("th")]
        for row in table.one("tbody").find("tr"):  # on a narrow screen a cell shows its heading
            cells = [cell for cell in row.children if not isinstance(cell, str)]
            told = [cell.attributes.get("data-h") for cell in cells]
            assert all(one in (other, "", None) for one, other in zip(told, headings)), told
    for drawing in root.find("svg"):
        assert drawing.attributes["role"] == "img" and drawing.find("title")[0].text().strip()
    for element in root.find(class_="scroll"):
        assert element.attributes["tabindex"] == "0" and element.attributes["role"] == "group"
        assert element.attributes["aria-label"].strip()
    for figure in root.find("figure"):
        assert figure.one("svg").find("title")[0].text() == figure.one("h3").text()
        assert figure.one("figcaption").one("p").text().strip()
    assert all(link.text().strip() for link in root.find("a"))


def check_drawings(root):
    """Coordinates are numbers within the drawing, but for names of lines that may stand out."""
    for drawing in root.find("svg"):
        for element in drawing.find():
            for name in ("d", "x", "y", "width", "height", "transform"):
                value = element.attributes.get(name, "")
                assert not re.search("nan|inf", value), f"<{element.name} {name}='{value}'>"
                assert all(abs(float(number)) < 2000 for number in re.findall(r"-?\d+\.?\d*", value)), value


def table_rows(root, label):
    """The rows of the table of that label as dictionaries of texts, by heading."""
    table = root.one(class_="scroll", aria_label=label).one("table")
    headings = [cell.text() for cell in table.one("thead").find("th")]
    assert len(headings) == len(set(headings)), headings
    rows = []
    for row in table.one("tbody").find("tr"):
        cells = [cell for cell in row.children if not isinstance(cell, str)]
        rows.append(dict(zip(headings, (cell.text() for cell in cells))))
    return rows


# ---- colours ---------------------------------------------------------------------------------------------------------


def themes(root):
    """The colours of the style sheet's variables: light, which paper has too, and dark."""
    style = root.one("style").text()
    blocks = re.findall(r":root \{(\s*--page.*?)\}", style, re.S)
    assert len(blocks) == 2
    return [dict(re.findall(r"--(\w+): (#[0-9a-f]+);", block)) for block in blocks]


def linear(colour):
    digits = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def contrast(one, other):
    """The ratio of WCAG 2.2."""
    lights = sorted(sum(w * part for w, part in zip((0.2126, 0.7152, 0.0722), linear(c))) for c in (one, other))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


# Machado, Oliveira and Fernandes 2009, severity 1: what readers without one kind of cone see, in linear RGB.
VISION = {
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no long cones": ((0.1523, 1.0526, -0.2049), (0.1145, 0.7863, 0.0992), (-0.0039, -0.0481, 1.052)),
    "no middle cones": ((0.3673, 0.8606, -0.228), (0.2801, 0.6725, 0.0474), (-0.0118, 0.0429, 0.9689)),
}


def lab(rgb):
    """CIELAB of linear sRGB, white D65."""
    rows = ((0.4124564, 0.3575761, 0.1804375), (0.2126729, 0.7151522, 0.072175), (0.0193339, 0.119192, 0.9503041))
    white = (0.95047, 1, 1.08883)
    f = []
    for row, w in zip(rows, white):
        t = max(0, sum(a * b for a, b in zip(row, rgb))) / w
        f.append(t ** (1 / 3) if t > 216 / 24389 else (24389 / 27 * t + 16) / 116)
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])


def distance(one, other, vision):
    """How different two colours look (CIE 1976; 2.3 is just noticeable)."""
    seen = []
    for colour in (one, other):
        rgb = [min(1, max(0, sum(a * b for a, b in zip(row, linear(colour))))) for row in VISION[vision]]
        seen.append(lab(rgb))
    return sum((a - b) ** 2 for a, b in zip(*seen)) ** 0.5
