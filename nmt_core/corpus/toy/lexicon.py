"""Define the words of the toy English-Korean grammar in compact tables, which are parsed once at import."""

from nmt_core.corpus.toy.korean import Predicate, Tense, is_syllable
from nmt_core.corpus.toy.words import Adjective, Noun, Verb, past_of, plural_of

_NOUNS = {
    "job 명": """student 학생, teacher 선생님, doctor 의사, nurse 간호사, lawyer 변호사, farmer 농부, chef 요리사,
        singer 가수, actor 배우, writer 작가, painter 화가, poet 시인, soldier 군인, driver 운전사, scientist 과학자,
        engineer 기술자, pilot 조종사, judge 판사, dancer 무용수, musician 음악가, journalist 기자, baker 제빵사,
        policeman/policemen 경찰관, firefighter 소방관, carpenter 목수, librarian 사서, professor 교수,
        photographer 사진사, fisherman/fishermen 어부, hunter 사냥꾼, clerk 점원,
        monk 승려, spy 간첩, thief/thieves 도둑""",
    "person 명": """man/men 남자, woman/women 여자, boy 소년, girl 소녀, child/children 아이, baby 아기, friend 친구,
        neighbor 이웃, guest 손님, king 왕, queen 여왕, prince 왕자, princess 공주""",
    "kin 명": """grandfather 할아버지, grandmother 할머니, mother 어머니, father 아버지, uncle 삼촌, aunt 이모,
        cousin 사촌, son 아들, daughter 딸, nephew 조카""",
    "animal 마리": """dog 개, cat 고양이, horse 말, cow 소, pig 돼지, rabbit 토끼, bird 새, lion 사자, tiger 호랑이,
        bear 곰, monkey 원숭이, elephant 코끼리, fox 여우, wolf/wolves 늑대, mouse/mice 쥐, duck 오리, chicken 닭,
        goat 염소, frog 개구리, snake 뱀, turtle 거북이, squirrel 다람쥐, penguin 펭귄, puppy 강아지, camel 낙타""",
    "fruit 개": """apple 사과, pear 배, banana 바나나, orange 오렌지, strawberry 딸기, peach 복숭아, lemon 레몬,
        melon 멜론, tomato/tomatoes 토마토, persimmon 감""",
    "vegetable 개": "potato/potatoes 감자, carrot 당근, onion 양파, cucumber 오이, mushroom 버섯, pumpkin 호박",
    "dish 개": """cake 케이크, cookie 쿠키, sandwich 샌드위치, egg 달걀, hamburger 햄버거, candy 사탕,
        dumpling 만두""",
    "food": "bread/ 빵, rice/ 밥, meat/ 고기, cheese/ 치즈, soup/ 수프, salad/ 샐러드, chocolate/ 초콜릿, honey/ 꿀",
    "drink": """water/ 물, milk/ 우유, coffee/ 커피, tea/ 차, juice/ 주스, wine/ 포도주, beer/ 맥주,
        lemonade/ 레모네이드""",
    "reading 권": """book 책, letter 편지@통, newspaper 신문@부, magazine 잡지, novel 소설@편, poem 시@편, diary 일기장,
        report 보고서@부, dictionary 사전, essay 수필@편, textbook 교과서""",
    "sound": "song 노래@곡, story 이야기@편",
    "thing 개": """box 상자, bag 가방, chair 의자, cup 컵, plate 접시, bottle 병, knife/knives 칼@자루, spoon 숟가락,
        pencil 연필@자루, pen 펜@자루, key 열쇠, clock 시계, camera 카메라@대, phone 전화기@대, computer 컴퓨터@대,
        radio 라디오@대, piano 피아노@대, guitar 기타@대, umbrella 우산, mirror 거울, lamp 램프, candle 양초@자루,
        ball 공, doll 인형, ring 반지, coin 동전, stone 돌, basket 바구니, blanket 담요@장, pillow 베개,
        towel 수건@장, picture 그림@장, map 지도@장, ticket 표@장, photo 사진@장, gift 선물, flower 꽃@송이, hat 모자,
        ladder 사다리, hammer 망치, toy 장난감, wallet 지갑, notebook 공책@권, eraser 지우개, desk 책상,
        table 탁자, bed 침대, sofa 소파""",
    "clothes 벌": """shirt 셔츠, coat 외투, skirt 치마, dress 드레스, sweater 스웨터, jacket 재킷, uniform 제복,
        vest 조끼, suit 정장""",
    "vehicle 대": """car 자동차, bus 버스, train 기차, taxi 택시, bicycle 자전거, truck 트럭, airplane 비행기,
        motorcycle 오토바이""",
    "building 채": "house 집, door 문@개, window 창문@개, bridge 다리@개, tree 나무@그루",
    "subject": """English/ 영어, Korean/ 한국어, French/ 프랑스어, Japanese/ 일본어, math/ 수학, music/ 음악,
        history/ 역사, science/ 과학, art/ 미술, philosophy/ 철학, law/ 법학""",
    "place": """school 학교, library 도서관, park 공원, hospital 병원, church 교회, market@at 시장, bank@at 은행,
        station@at 역, airport@at 공항, restaurant 식당, museum 박물관, theater 극장, hotel 호텔, factory 공장,
        office 사무실, garden 정원, farm@on 농장, beach@on 해변, forest 숲, village 마을, city 도시, kitchen 부엌,
        classroom 교실, university@at 대학교, store 가게, bakery 빵집, pharmacy@at 약국, zoo@at 동물원, palace 궁전,
        temple 절, island@on 섬, gym 체육관, cafe 카페, stadium 경기장""",
}


def _entries(table: str) -> list[tuple[str, str]]:
    """Parse `word korean, word korean` into [(word, korean)]. The last blank of an entry precedes the Korean."""
    parts = [entry.strip().rpartition(" ") for entry in table.split(",")]
    return [(english, korean) for english, _, korean in parts]


PREPOSITION: dict[str, str] = {}


def _read_nouns() -> dict[str, tuple[Noun, ...]]:
    nouns: dict[str, tuple[Noun, ...]] = {}
    for head, table in _NOUNS.items():
        kind, _, default = head.partition(" ")
        row = []
        for english, korean in _entries(table):
            english, _, preposition = english.partition("@")
            english, slash, plural = english.partition("/")
            korean, _, counter = korean.partition("@")
            if kind == "place":
                PREPOSITION[english] = preposition or "in"
            row.append(Noun(english, plural if slash else plural_of(english), korean, counter or default, kind))
        nouns[kind] = tuple(row)
    return nouns


NOUNS = _read_nouns()
_NOUN = {noun.en: noun for row in NOUNS.values() for noun in row}
PEOPLE = NOUNS["job"] + NOUNS["person"]

_GOODS = "fruit vegetable dish food drink clothes vehicle thing"
_FOLK = "job person"
_TRANSITIVE = f"""
eat/ate 먹 + fruit vegetable dish food; drink/drank 마시 + drink; buy/bought 사 + {_GOODS} book newspaper dictionary
sell/sold 팔 + {_GOODS} book newspaper magazine textbook; read/read 읽 + reading
write/wrote 쓰 + letter novel poem report essay book; wear/wore 입 - clothes; make/made 만들 + cake cookie dumpling bag
wash 씻 + fruit vegetable cup plate bottle spoon; cook 요리하 + vegetable meat egg; find/found 찾 + thing animal book
lose/lost 잃어버리 + umbrella ring key wallet coin bag hat phone ticket camera; carry 나르:르 - box bag chair table sofa
open 열 - box bag door window bottle; close 닫 - door window box bag; see/saw 보 + {_FOLK} animal vehicle thing
meet/met 만나 + {_FOLK}; help 돕:ㅂ + {_FOLK}; love 사랑하 ! {_FOLK}; know/knew 알 ! {_FOLK}
teach/taught 가르치 + {_FOLK}
wait for 기다리 + {_FOLK} bus taxi train; like 좋아하 ! {_FOLK} animal fruit dish drink subject food
hate 미워하 ! {_FOLK}; remember 기억하 ! {_FOLK} song story; forget/forgot 잊 ! {_FOLK} song story
respect 존경하 ! {_FOLK}; invite 초대하 - {_FOLK}; believe 믿 ! {_FOLK} story; visit 방문하 - place
hug/hugged 안 + {_FOLK}
draw/drew 그리 + animal flower tree house car; listen to 듣:ㄷ + song story music; learn 배우 + subject
study/studied 공부하 + subject; catch/caught 잡 + animal thief ball; raise 기르:르 - animal; ride/rode 타 - bus train
ride/rode 타 - horse bicycle taxi motorcycle camel; drive/drove 운전하 - car bus truck taxi; fix 고치 + vehicle clock
push 밀 - {_FOLK} chair desk car; pull 끌 - sofa table bed; break/broke 깨뜨리 - cup plate bottle window mirror
throw/threw 던지 + ball stone hat pillow; pick up 줍:ㅂ + stone coin key pencil ball; use 사용하 + computer phone hammer
use 사용하 + knife spoon towel ladder umbrella; choose/chose 고르:르 + gift hat clothes ring book
want 원하 ! thing clothes
receive 받 - letter gift flower photo; borrow 빌리 - book pen umbrella car bicycle; hide/hid 숨기 - gift ring key letter
move 옮기 - box chair desk bed piano; touch 만지 - animal stone piano doll; build/built 짓:ㅅ - house
plant 심 + flower tree; cross 건너 - bridge; count/counted 세 - coin book ticket box; call 부르:르 - {_FOLK}
"""
_INTRANSITIVE = """sleep/slept 자, run/ran 달리, walk 걷:ㄷ, dance 춤추, sing/sang 노래하, cry 울, laugh 웃, rest 쉬,
        work 일하,
swim/swam 수영하, exercise 운동하, fight/fought 싸우, jump 뛰, shout 소리치, pray 기도하, smile 미소 짓:ㅅ, play 놀,
argue 다투, travel 여행하"""
_BEASTLY = ("sleep", "run", "walk", "jump", "swim", "play", "rest", "fight")
_MOTION = "go/went 가, come/came 오, return 돌아오, go back/went back 돌아가"
_GIVING = "give/gave 주, show 보여주, send/sent 보내, sell/sold 팔, bring/brought 가져다주"

_ADJECTIVES = {
    "feeling": """busy 바쁘, tired 피곤하, sick 아프, happy 행복하, sad 슬프, hungry 배고프, lonely 외롭:ㅂ,
        nervous 초조하,
        healthy 건강하, thirsty 목마르:르""",
    "trait": """kind 친절하, tall 키가 크, young 젊, smart 똑똑하, strong 강하, weak 약하, famous 유명하, rich 부유하,
        poor 가난하, honest 정직하, brave 용감하, lazy 게으르:르, diligent 부지런하, polite 공손하, wise 지혜롭:ㅂ,
        foolish 어리석, shy 수줍, cheerful 쾌활하, pretty 예쁘, beautiful 아름답:ㅂ""",
    "animal": """big 크, small 작, cute 귀엽:ㅂ, fast 빠르:르, slow 느리, white 하얗:ㅎ, black 까맣:ㅎ,
        dangerous 위험하,
        hungry 배고프, strong 강하""",
    "fruit": "delicious 맛있, sweet 달, sour 시, fresh 신선하, cheap 싸, expensive 비싸, big 크",
    "vegetable": "fresh 신선하, cheap 싸, expensive 비싸, big 크, small 작",
    "dish": "delicious 맛있, warm 따뜻하, cheap 싸, expensive 비싸, big 크, small 작",
    "food": "delicious 맛있, fresh 신선하, cheap 싸, expensive 비싸, warm 따뜻하",
    "drink": "delicious 맛있, cold 차갑:ㅂ, hot 뜨겁:ㅂ, sweet 달, cheap 싸, expensive 비싸",
    "reading": """interesting 재미있, boring 지루하, difficult 어렵:ㅂ, easy 쉽:ㅂ, long 길, short 짧, famous 유명하,
        good 좋,
        important 중요하, strange 이상하""",
    "thing": """big 크, small 작, new 새롭:ㅂ, heavy 무겁:ㅂ, light 가볍:ㅂ, expensive 비싸, cheap 싸, red 빨갛:ㅎ,
        blue 파랗:ㅎ, yellow 노랗:ㅎ, black 까맣:ㅎ, white 하얗:ㅎ, clean 깨끗하, dirty 더럽:ㅂ, beautiful 아름답:ㅂ,
        good 좋, useful 유용하, strange 이상하""",
    "clothes": """thick 두껍:ㅂ, thin 얇, red 빨갛:ㅎ, soft 부드럽:ㅂ, warm 따뜻하, new 새롭:ㅂ, pretty 예쁘, long 길,
        short 짧""",
    "vehicle": "fast 빠르:르, slow 느리, new 새롭:ㅂ, safe 안전하, expensive 비싸, white 하얗:ㅎ, big 크, small 작",
    "building": "big 크, small 작, new 새롭:ㅂ, beautiful 아름답:ㅂ",
    "subject": "difficult 어렵:ㅂ, easy 쉽:ㅂ, important 중요하, interesting 재미있, useful 유용하, boring 지루하",
    "place": """big 크, small 작, clean 깨끗하, dirty 더럽:ㅂ, quiet 조용하, noisy 시끄럽:ㅂ, famous 유명하, wide 넓,
        narrow 좁,
        dark 어둡:ㅂ, bright 밝, safe 안전하, beautiful 아름답:ㅂ""",
}


def _predicate(korean: str, is_verb: bool) -> Predicate:
    stem, _, irregular = korean.partition(":")
    return Predicate(stem, irregular, is_verb)


def _read_verbs(table: str) -> tuple[Verb, ...]:
    """Parse the verbs of `table`. Entries with the same English word become one verb that takes the objects of both."""
    verbs: dict[str, Verb] = {}
    for entry in table.replace("\n", ";").split(";"):
        words = entry.split()
        if not words:
            continue
        mark = next(i for i, word in enumerate(words) if word in ("+", "-", "!"))
        base, _, past = " ".join(words[: mark - 1]).partition("/")
        objects = tuple(noun for word in words[mark + 1 :] for noun in NOUNS.get(word) or (_NOUN[word],))
        known = verbs[base].objects if base in verbs else ()
        predicate = _predicate(words[mark - 1], is_verb=True)
        verbs[base] = Verb(base, past or past_of(base), predicate, words[mark], known + objects)
    return tuple(verbs.values())


def _read_simple_verbs(table: str) -> tuple[Verb, ...]:
    pairs = [(english.partition("/"), _predicate(korean, is_verb=True)) for english, korean in _simple(table)]
    return tuple(Verb(base, past or past_of(base), korean) for (base, _, past), korean in pairs)


def _simple(table: str) -> list[tuple[str, str]]:
    """Parse entries whose Korean has several words. The Korean starts at the first word in Hangul."""
    rows = []
    for entry in table.split(","):
        words = entry.split()
        start = next(i for i, word in enumerate(words) if is_syllable(word[0]))
        rows.append((" ".join(words[:start]), " ".join(words[start:])))
    return rows


def _named(words: str) -> tuple[Noun, ...]:
    return tuple(_NOUN[word] for word in words.split())


TRANSITIVE = _read_verbs(_TRANSITIVE)
INTRANSITIVE = _read_simple_verbs(_INTRANSITIVE)
BEASTLY = tuple(verb for verb in INTRANSITIVE if verb.en in _BEASTLY)
MOTION = _read_simple_verbs(_MOTION)
GIVING = _read_simple_verbs(_GIVING)
HAVE = Verb("have", "had", Predicate("있", is_verb=False))
ADJECTIVES: dict[str, tuple[Adjective, ...]] = {
    kind: tuple(Adjective(english, _predicate(korean, is_verb=False)) for english, korean in _simple(table))
    for kind, table in _ADJECTIVES.items()
}
PORTABLE = _named(
    "book cup key pen pencil camera phone umbrella ball doll ring coin "
    "hat map gift flower wallet notebook newspaper letter spoon towel toy cat mouse"
)
SURFACES = _named("desk table chair bed sofa piano")
CONTAINERS = _named("box basket bag car")

NAMES = _simple(
    "Mina 미나, Tom 톰, Anna 안나, John 존, Susan 수잔, Jiho 지호, Minsu 민수, Yuna 유나, Peter 피터, Mary 메리, "
    "David 데이비드, Sora 소라, Emma 엠마, Paul 폴, Lisa 리사, Jack 잭, Bora 보라, Sam 샘, Kevin 케빈, Julia 줄리아"
)
NUMBERS = _simple(
    "two 두, three 세, four 네, five 다섯, six 여섯, seven 일곱, eight 여덟, nine 아홉, ten 열, eleven 열한, "
    "twelve 열두, fifteen 열다섯, twenty 스무"
)
_DAYS = (
    "on Monday 월요일에, on Tuesday 화요일에, on Wednesday 수요일에, on Thursday 목요일에, on Friday 금요일에, "
    "on Saturday 토요일에, on Sunday 일요일에"
)
TIMES: dict[Tense, list[tuple[str, str]]] = {
    "present": _simple(
        "every day 매일, every morning 매일 아침, in the evening 저녁에, at night 밤에, every week 매주, "
        "in summer 여름에, in winter 겨울에, in spring 봄에, in autumn 가을에, every weekend 주말마다, "
        "in the morning 아침에, every year 매년"
    ),
    "past": _simple(
        "yesterday 어제, last night 어젯밤에, last week 지난주에, last month 지난달에, last year 작년에, "
        "this morning 오늘 아침에, " + _DAYS
    ),
    "future": _simple(
        "tomorrow 내일, next week 다음 주에, next month 다음 달에, next year 내년에, tonight 오늘 밤에, soon 곧, "
        + _DAYS
    ),
    "can": _simple("now 지금, today 오늘, tomorrow 내일"),
}
FREQUENCY = _simple("often 자주, always 항상, sometimes 가끔, usually 보통")
MANNER = _simple(
    "quickly 빨리, slowly 천천히, quietly 조용히, happily 즐겁게, carefully 조심스럽게, alone 혼자, well 잘"
)


def english_words() -> tuple[str, ...]:
    """Return the distinct English lexical words of the lexicon (base forms, lower case), in table order."""
    nouns = [noun.en for row in NOUNS.values() for noun in row]
    verbs = [verb.en for verb in (*TRANSITIVE, *INTRANSITIVE, *MOTION, *GIVING, HAVE)]
    adjectives = [adjective.en for row in ADJECTIVES.values() for adjective in row]
    phrases = [english for table in (NAMES, NUMBERS, FREQUENCY, MANNER, *TIMES.values()) for english, _ in table]
    words = " ".join((*nouns, *verbs, *adjectives, *phrases)).lower().split()
    return tuple(dict.fromkeys(words))
